// The head of the page: the panels' tabs, the search box, and buttons.

import { button, element } from "../drawing/dom";
import { PANELS, type Panel, type State } from "../state/state";

const TITLES: Record<Panel, string> = {
  timeline: "Timeline",
  flame: "Flame graph",
  compare: "Compare",
  findings: "Findings",
  sql: "SQL",
};

export interface HeadActions {
  copyLink(): void;
  toggleTheme(): void;
  help(): void;
}

export function headElement(
  state: State,
  search: HTMLElement,
  actions: HeadActions,
): HTMLElement {
  const tabs = element("div", { class: "tabs", role: "tablist", "aria-label": "Panels" });
  const buttons = new Map<Panel, HTMLButtonElement>();
  for (const panel of PANELS) {
    const made = button(TITLES[panel], () => state.panel.set(panel), {
      role: "tab",
      id: `tab-${panel}`,
      "aria-controls": `panel-${panel}`,
    });
    buttons.set(panel, made);
    tabs.append(made);
  }
  const update = (): void => {
    for (const [panel, made] of buttons) {
      const isChosen = panel === state.panel.value;
      made.setAttribute("aria-selected", String(isChosen));
      made.tabIndex = isChosen ? 0 : -1;
    }
    buttons.get("compare")!.hidden = state.sources.value.length < 2;
  };
  state.panel.watch(update);
  state.sources.watch(update);
  update();
  tabs.addEventListener("keydown", (event) => stepTabs(event, state, buttons));
  return element("header", { class: "head" },
    element("span", { class: "brand", text: "spanwise" }),
    tabs,
    search,
    button("Copy link", actions.copyLink, { title: "A link to what you see, for as long as spanwise runs" }),
    button("◐", actions.toggleTheme, { "aria-label": "Dark or light", title: "Dark or light" }),
    button("?", actions.help, { "aria-label": "Keys", title: "Keys (?)" }));
}

/** Arrows move between tabs, as everywhere else. */
function stepTabs(
  event: KeyboardEvent,
  state: State,
  buttons: ReadonlyMap<Panel, HTMLButtonElement>,
): void {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (by === 0) return;
  const open = [...buttons.keys()].filter((panel) => !buttons.get(panel)!.hidden);
  const next = open[(open.indexOf(state.panel.value) + by + open.length) % open.length]!;
  state.panel.set(next);
  buttons.get(next)!.focus();
  event.preventDefault();
}
