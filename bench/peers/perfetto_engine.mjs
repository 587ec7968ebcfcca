// Perfetto's engine, compiled to WebAssembly, in Node.
//
// The engine comes as the script of a browser's worker. Node has no such workers, so the
// script is offered the three things it asks of one (its location, a synchronous request
// for the .wasm file, a message port) and is spoken to in its own protobuf messages.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { runInThisContext } from "node:vm";

// Of TraceProcessorRpc: the methods, where their arguments and results stand, and which
// field of a result says what went wrong.
const METHOD = { append: 1, finalize: 2, query: 3, reset: 5 };
const ARGUMENT = { append: 101, query: 103 };
const QUERY_RESULT = 203;
const FATAL = [4, 5];
const ERROR_OF_RESULT = new Map([[201, 2], [QUERY_RESULT, 2], [212, 1]]);

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const bytesField = (field, bytes) =>
  Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/** The fields of a message: pairs of a number and a value, a number or bytes. */
function* fieldsOf(bytes) {
  let at = 0;
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = number();
    if (tag % 8 === 0) yield [Math.floor(tag / 8), number()];
    else {
      const length = tag % 8 === 1 ? 8 : number();
      yield [Math.floor(tag / 8), bytes.subarray(at, (at += length))];
    }
  }
}

const valuesOf = (bytes, wanted) =>
  [...fieldsOf(bytes)].filter(([number]) => number === wanted).map(([, value]) => value);

/** Fails where a reply of the engine says that something went wrong. */
function refuseErrors(reply) {
  for (const [number, value] of fieldsOf(reply)) {
    const error = ERROR_OF_RESULT.get(number);
    const says = FATAL.includes(number)
      ? [value]
      : error === undefined
        ? []
        : valuesOf(value, error);
    if (says.some((text) => text.length > 0)) throw new Error(`the engine failed: ${says[0]}`);
  }
}

/** The engine of a folder, empty. Several traces can be opened, one after the other. */
export class Engine {
  static async start(folder) {
    globalThis.self = { location: { href: "file:///" } };
    globalThis.WorkerGlobalScope = class {};
    globalThis.XMLHttpRequest = class {
      open(method, name) {
        this.name = name;
      }
      send() {
        this.response = readFileSync(join(folder, basename(this.name)));
      }
    };
    // What the script checks to distinguish Node from a browser; it refuses Node.
    process.type = "renderer";
    // It logs to the console; standard output is for results alone.
    console.log = console.warn = console.error = () => {};
    runInThisContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"));
    const engine = new Engine();
    engine.port = { postMessage: (bytes) => engine.replies.push(Buffer.from(bytes)) };
    self.onmessage({ data: engine.port });
    // The script finishes its own set-up in a promise.
    await new Promise((resolve) => setTimeout(resolve, 0));
    return engine;
  }

  sequence = 0;
  replies = [];

  /** Sends one request; gives the messages of the reply. */
  request(method, argument = Buffer.alloc(0)) {
    const head = Buffer.concat([varint(8), varint(this.sequence++), varint(16), varint(method)]);
    this.replies = [];
    this.port.onmessage({ data: new Uint8Array(bytesField(1, Buffer.concat([head, argument]))) });
    const messages = valuesOf(Buffer.concat(this.replies), 1);
    messages.forEach(refuseErrors);
    return messages;
  }

  reset() {
    this.request(METHOD.reset);
  }

  append(bytes) {
    this.request(METHOD.append, bytesField(ARGUMENT.append, bytes));
  }

  finalize() {
    this.request(METHOD.finalize);
  }

  /** The texts that a query of one column of texts answers with. */
  query(sql) {
    const argument = bytesField(ARGUMENT.query, bytesField(1, Buffer.from(sql)));
    const rows = [];
    for (const message of this.request(METHOD.query, argument)) {
      for (const result of valuesOf(message, QUERY_RESULT)) {
        for (const batch of valuesOf(result, 3)) {
          for (const cells of valuesOf(batch, 5)) {
            rows.push(...cells.toString("utf8").split("\0").slice(0, -1));
          }
        }
      }
    }
    return rows;
  }
}
