// Dark or light: as the system says, until the user says otherwise.

import type { Theme } from "../drawing/color";
import type { State } from "../state/state";

const KEY = "spanwise-theme";

export function followTheme(state: State): void {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const update = (): void => state.theme.set(chosen() ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", update);
  state.theme.watch(() => apply(state.theme.value));
  update();
  apply(state.theme.value);
}

export function toggleTheme(state: State): void {
  const next: Theme = state.theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Then it is forgotten with the page.
  }
  state.theme.set(next);
}

function chosen(): Theme | null {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "dark" || theme === "light" ? theme : null;
  } catch {
    return null;
  }
}

function apply(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
}
