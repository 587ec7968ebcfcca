// Elements from script. Text of traces goes in as text, never as markup: there is no way
// here to set markup, and a test searches for other ways.

import { printable } from "./printable";

type Child = Node | string | null;

interface Attributes {
  /** `text` is the content, any other an attribute; `undefined` and `false` leave it out. */
  [name: string]: string | number | boolean | undefined;
}

/** Attributes that people read. */
const READ = new Set(["title", "aria-label", "placeholder"]);

/** An element with attributes and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    const text = value === true ? "" : String(value);
    if (name === "text") made.textContent = printable(text);
    else made.setAttribute(name, READ.has(name) ? printable(text) : text);
  }
  for (const child of children) if (child !== null) made.append(typeof child === "string" ? printable(child) : child);
  return made;
}

/** A button that does something; `text` is its name unless `label` says another. */
export function button(
  text: string,
  action: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  const made = element("button", { type: "button", text, ...attributes });
  made.addEventListener("click", action);
  return made;
}

/** A choice among values, shown by their texts. */
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [value: T, text: string])[],
  action: (value: T) => void,
): HTMLSelectElement {
  const made = element("select", { "aria-label": label });
  for (const [value, text] of options) made.append(element("option", { value, text }));
  made.addEventListener("change", () => action(made.value as T));
  return made;
}

export function replaceChildren(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child) => child !== null));
}

/** Whether keys that are typed now are text for a field. */
export function isTyping(event: KeyboardEvent): boolean {
  const { target } = event;
  return (
    target instanceof HTMLInputElement ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement
  );
}
