// Starts the page: asks which traces there are, and shows them, or says why it cannot.

import "./style.css";
import { App } from "./page/app";
import { button, element, replaceChildren } from "./drawing/dom";
import { learnKinds } from "./drawing/kinds";
import { askTraces, reasonText } from "./server/server";
import { State } from "./state/state";
import { followTheme } from "./page/theme";

async function start(): Promise<void> {
  const state = new State();
  followTheme(state);
  const { body } = document;
  try {
    const { kinds, traces } = await askTraces();
    learnKinds(kinds);
    if (traces.length === 0) return message("No trace", "Start it with one: spanwise view trace.json.gz");
    document.title = `${traces.map(({ file }) => file.split("/").at(-1)).join(", ")} – spanwise`;
    const app = new App(state, traces);
    replaceChildren(body, app.element);
    body.dataset["ready"] = "true";
    // Sizes are known only now.
    state.sources.set([...state.sources.value]);
  } catch (error) {
    message("The traces cannot be shown", reasonText(error));
  }
}

function message(title: string, text: string): void {
  replaceChildren(document.body,
    element("main", { class: "message" },
      element("h1", { text: title }),
      element("p", { text }),
      button("Try again", () => location.reload())));
}

void start();
