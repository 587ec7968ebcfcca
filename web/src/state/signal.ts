// A value that notifies its readers when it changes. This is all the page has of a framework.

export class Signal<T> {
  readonly #readers = new Set<(value: T) => void>();
  #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const reader of [...this.#readers]) reader(value);
  }

  /** Calls the reader at each change; the answer ends that. */
  watch(reader: (value: T) => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }
}
