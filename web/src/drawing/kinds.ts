// What kinds of spans there are: the server sends their list, this page knows how each is
// called and colored. The hues follow Okabe and Ito's palette, which people with
// color blindness can distinguish; what matters is never shown by color alone.

export interface Kind {
  title: string;
  hue: number;
  saturation: number;
  /** Spans of it differ in hue by their name: the kind says nothing, the name all. */
  isVaried?: true;
}

const OTHER: Kind = { title: "other", hue: 215, saturation: 34, isVaried: true };

const KINDS: Record<string, Kind> = {
  other: OTHER,
  python: { title: "Python", hue: 44, saturation: 58 },
  operator: { title: "operator", hue: 207, saturation: 58 },
  annotation: { title: "annotation", hue: 240, saturation: 48 },
  runtime: { title: "GPU runtime call", hue: 325, saturation: 44 },
  kernel: { title: "GPU kernel", hue: 160, saturation: 48 },
  communication: { title: "communication", hue: 272, saturation: 50 },
  memcpy: { title: "copy", hue: 25, saturation: 76 },
  memset: { title: "memset", hue: 12, saturation: 52 },
  sync: { title: "synchronization", hue: 0, saturation: 52 },
  gpu_annotation: { title: "annotation on the GPU", hue: 240, saturation: 30 },
  overhead: { title: "profiler's overhead", hue: 0, saturation: 12 },
  window: { title: "recording", hue: 135, saturation: 22 },
  off_cpu: { title: "not running", hue: 215, saturation: 10 },
  lock_wait: { title: "waiting for a lock", hue: 350, saturation: 45 },
  sampled: { title: "drawn from samples", hue: 215, saturation: 34, isVaried: true },
};

let known: Kind[] = Object.values(KINDS);

/** Takes the server's list; a kind that this page does not know is shown by its name. */
export function learnKinds(names: readonly string[]): void {
  known = names.map((name) => KINDS[name] ?? { ...OTHER, title: name.replaceAll("_", " ") });
}

/** The kind of a span, by its index in the server's list. */
export function kindOf(index: number): Kind {
  return known[index] ?? OTHER;
}
