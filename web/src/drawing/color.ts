// Colors of spans: a hue for each kind, a little lighter or darker by name, so that
// neighbors differ and the same name has the same color everywhere.

import { kindOf, type Kind } from "./kinds";

export type Theme = "light" | "dark";

const LIGHTEST: Record<Theme, number> = { light: 68, dark: 54 };
/** For spans that differ in nothing but their name. */
const VARIED_HUES = [44, 207, 160, 272, 25, 325, 190, 100];
const SHADES = 8;
const SHADE_STEP = 2;

/** FNV-1a: stable from one version of the page to the next. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  // The low bits of FNV depend on the last letter most; fold the high ones in.
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** By theme, then kind, then name: asked for each rectangle of each frame. */
const made: Record<Theme, Map<string, string>[]> = { light: [], dark: [] };
const NAMES_KEPT = 50_000;

/** The fill of a span. */
export function spanColor(kind: number, name: string, theme: Theme): string {
  let ofKind = made[theme][kind];
  if (ofKind === undefined || ofKind.size > NAMES_KEPT) {
    ofKind = new Map();
    made[theme][kind] = ofKind;
  }
  let color = ofKind.get(name);
  if (color === undefined) {
    color = colorOf(kindOf(kind), name, theme);
    ofKind.set(name, color);
  }
  return color;
}

const SAME: Record<Theme, number> = { light: 93, dark: 34 };
const CHANGED: Record<Theme, number> = { light: 60, dark: 56 };
const MORE_HUE = 8;
const LESS_HUE = 212;

/** What share of a part is new (above 0) or gone (below); 0 where nothing changed. */
export function changeShare(before: number, after: number): number {
  const most = Math.max(before, after);
  return most === 0 ? 0 : (after - before) / most;
}

/** Red for more, blue for less, the paler the nearer to the same. */
export function changeColor(share: number, theme: Theme): string {
  const size = Math.min(Math.abs(share), 1) ** 0.6;
  const light = SAME[theme] + (CHANGED[theme] - SAME[theme]) * size;
  return `hsl(${share > 0 ? MORE_HUE : LESS_HUE} ${Math.round(12 + 66 * size)}% ${Math.round(light)}%)`;
}

/** Hue in degrees, saturation and lightness in percent. */
export type Hsl = readonly [hue: number, saturation: number, light: number];

/** The fill of a span, for those who paint pixels. */
export function spanHsl(kind: number, name: string, theme: Theme): Hsl {
  return hslOf(kindOf(kind), name, theme);
}

function hslOf(kind: Kind, name: string, theme: Theme): Hsl {
  const hash = hashOf(name);
  const light = LIGHTEST[theme] + (hash % SHADES) * SHADE_STEP;
  const hue = kind.isVaried ? VARIED_HUES[(hash >>> 8) % VARIED_HUES.length]! : kind.hue;
  return [hue, kind.saturation, light];
}

function colorOf(kind: Kind, name: string, theme: Theme): string {
  const [hue, saturation, light] = hslOf(kind, name, theme);
  return `hsl(${hue} ${saturation}% ${light}%)`;
}

/** The number that an image has for an opaque pixel of the color: alpha, blue, green, red. */
export function pixelOf([hue, saturation, light]: Hsl): number {
  const l = light / 100;
  const a = (saturation / 100) * Math.min(l, 1 - l);
  const channel = (n: number): number => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return ((255 << 24) | (channel(4) << 16) | (channel(8) << 8) | channel(0)) >>> 0;
}

/** The same of a color that is written "#rrggbb". */
export function pixelOfHex(color: string): number {
  const [, red, green, blue] = /^#(..)(..)(..)$/.exec(color) ?? [];
  const byte = (digits: string | undefined): number => Number.parseInt(digits ?? "0", 16);
  return ((255 << 24) | (byte(blue) << 16) | (byte(green) << 8) | byte(red)) >>> 0;
}

/** What a canvas needs of the page's colors: it cannot read them from the style sheet. */
export interface Paints {
  theme: Theme;
  background: string;
  alternate: string;
  line: string;
  text: string;
  faint: string;
  /** On a span's own fill. */
  onSpan: string;
  accent: string;
  selection: string;
  hit: string;
  counter: string;
  counterEdge: string;
}

export const PAINTS: Record<Theme, Paints> = {
  light: {
    theme: "light",
    background: "#ffffff",
    alternate: "#f6f7f9",
    line: "#dfe3e8",
    text: "#1d2430",
    faint: "#697586",
    onSpan: "#14181f",
    accent: "#0b6bcb",
    selection: "rgb(11 107 203 / 12%)",
    hit: "#c2410c",
    counter: "rgb(11 107 203 / 28%)",
    counterEdge: "#0b6bcb",
  },
  dark: {
    theme: "dark",
    background: "#14181f",
    alternate: "#191e27",
    line: "#2b323e",
    text: "#e6e9ef",
    faint: "#97a3b4",
    onSpan: "#0d1015",
    accent: "#6cb6ff",
    selection: "rgb(108 182 255 / 16%)",
    hit: "#ffa657",
    counter: "rgb(108 182 255 / 28%)",
    counterEdge: "#6cb6ff",
  },
};
