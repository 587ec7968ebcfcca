// A line across the page when something is wrong: the server is gone, or it refused.

import { button, element, replaceChildren } from "../drawing/dom";
import { askTraces, isReachable } from "../server/server";
import type { State } from "../state/state";

const RETRY_MS = 2000;

export function bannerElement(state: State): HTMLElement {
  const banner = element("div", { class: "banner", role: "alert", hidden: true });
  let timer = 0;
  const retry = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      askTraces().catch(() => retry());
    }, RETRY_MS);
  };
  const update = (): void => {
    const problem = state.problem.value;
    banner.hidden = isReachable.value && problem === "";
    if (!isReachable.value) {
      banner.textContent =
        "spanwise does not answer any more. Start `spanwise view` again and open the address that " +
        "it prints; if it only sleeps, this page goes on by itself.";
      retry();
      return;
    }
    window.clearTimeout(timer);
    replaceChildren(banner, problem, button("Dismiss", () => state.problem.set("")));
  };
  isReachable.watch(update);
  state.problem.watch(update);
  return banner;
}
