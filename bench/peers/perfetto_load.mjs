// Load a trace with Perfetto's engine, compiled to WebAssembly with 64-bit
// memory, as its web page does: `perfetto_load.mjs ENGINE_FOLDER TRACE`.
//
// The engine comes as the script of a browser worker. Node has no such workers,
// so this file offers the three things the script asks of one (its location, a
// synchronous request for the .wasm file, a message port) and speaks the
// engine's protobuf protocol over the port, of which six fields are needed.

import { openSync, readFileSync, readSync } from "node:fs";
import { basename, join } from "node:path";
import { runInThisContext } from "node:vm";

const [engineFolder, tracePath] = process.argv.slice(2);

// The size in which the engine takes its input.
const CHUNK_BYTES = 32 << 20;

// Methods and fields of TraceProcessorRpc, with the parts of its results.
const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;
const FIELD = {
  seq: 1,
  request: 2,
  response: 3,
  invalidRequest: 4,
  fatalError: 5,
  appendData: 101,
  queryArgs: 103,
  appendResult: 201,
  queryResult: 203,
  finalizeResult: 212,
};

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
  return Buffer.from(bytes);
}

function numberField(field, value) {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

function bytesField(field, bytes) {
  return Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
}

/** The fields of a message as [number, value], values as numbers or bytes. */
function* fieldsOf(bytes) {
  let at = 0;
  const readVarint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = readVarint();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case 0:
        yield [field, readVarint()];
        break;
      case 1:
        yield [field, bytes.subarray(at, (at += 8))];
        break;
      case 2: {
        const length = readVarint();
        yield [field, bytes.subarray(at, (at += length))];
        break;
      }
      default:
        throw new Error(`byte ${at}: wire type ${tag % 8} in a reply`);
    }
  }
}

function field(bytes, wanted) {
  for (const [number, value] of fieldsOf(bytes)) if (number === wanted) return value;
  return undefined;
}

/** Starts the engine and returns a function that sends it one request. */
async function startEngine(folder) {
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
  // What the script looks at to tell Node from a browser; it refuses Node.
  process.type = "renderer";
  // The engine logs to the console; standard output is for the result alone.
  console.log = console.warn = console.error;
  runInThisContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"));

  const port = { replies: [], postMessage: (bytes) => port.replies.push(Buffer.from(bytes)) };
  self.onmessage({ data: port });
  // The engine finishes its own set-up in a promise.
  await new Promise((resolve) => setTimeout(resolve, 0));

  let seq = 0;
  return (method, argument = Buffer.alloc(0)) => {
    const message = Buffer.concat([
      numberField(FIELD.seq, seq++),
      numberField(FIELD.request, method),
      argument,
    ]);
    port.replies = [];
    port.onmessage({ data: new Uint8Array(bytesField(1, message)) });
    const reply = field(Buffer.concat(port.replies), 1);
    for (const [number, value] of fieldsOf(reply)) {
      const says =
        number === FIELD.fatalError || number === FIELD.invalidRequest
          ? value
          : number === FIELD.appendResult || number === FIELD.queryResult
            ? field(value, 2)
            : number === FIELD.finalizeResult
              ? field(value, 1)
              : undefined;
      if (says !== undefined && says.length !== 0) throw new Error(`engine: ${says}`);
    }
    return reply;
  };
}

/** The one number that a query such as `select count(*)` answers with. */
function queryNumber(request, sql) {
  const args = bytesField(FIELD.queryArgs, bytesField(1, Buffer.from(sql)));
  const batch = field(field(request(QUERY, args), FIELD.queryResult), 3);
  const cells = field(batch, 2);
  let value = 0;
  cells.forEach((byte, index) => (value += (byte & 127) * 128 ** index));
  return value;
}

process.on("uncaughtException", (error) => {
  process.stderr.write(`${String(error).slice(0, 500)}\n`);
  process.exit(1);
});
const request = await startEngine(engineFolder);

const start = performance.now();
const trace = openSync(tracePath);
const chunk = Buffer.alloc(CHUNK_BYTES);
for (let length; (length = readSync(trace, chunk)) > 0; ) {
  request(APPEND, bytesField(FIELD.appendData, chunk.subarray(0, length)));
}
request(FINALIZE);
const loadSeconds = (performance.now() - start) / 1000;

const slices = queryNumber(request, "select count(*) from slice");
const dropped = queryNumber(
  request,
  "select cast(ifnull(sum(value), 0) as int) from stats where severity in ('error', 'data_loss')",
);
process.stdout.write(
  `${JSON.stringify({
    load_s: loadSeconds,
    version: basename(engineFolder).split("-")[0].replace("v", ""),
    read: `${slices.toLocaleString("en")} slices, ${dropped.toLocaleString("en")} errors`,
  })}\n`,
);
process.exit(0);
