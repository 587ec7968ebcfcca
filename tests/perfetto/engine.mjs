// Open traces with Perfetto's engine and print what it holds, as JSON:
// `engine.mjs ENGINE_FOLDER TRACE...`.
//
// The engine is the script of a browser's worker around a WebAssembly module. It is
// given what it asks of a worker, and is spoken to in its own protobuf messages.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { runInThisContext } from "node:vm";

const [engineFolder, ...tracePaths] = process.argv.slice(2);

// Of TraceProcessorRpc: the methods, where their arguments and results stand.
const METHOD = { append: 1, finalize: 2, query: 3, reset: 5 };
const ARGUMENT = { append: 101, query: 103 };
const QUERY_RESULT = 203;

const QUERIES = {
  slices: `select ifnull(name, '') || '|' || ts || '|' || dur from slice`,
  categories: `select ifnull(category, '') || '|' || count(*) from slice group by category`,
  flows: `select ifnull(a.name, '') || '|' || a.ts || '|' || a.dur || '|' ||
    ifnull(b.name, '') || '|' || b.ts || '|' || b.dur
    from flow join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id`,
  counters: `select t.name || '|' || c.ts || '|' || c.value
    from counter c join counter_track t on c.track_id = t.id`,
  threads: `select ifnull(p.name, '') || '|' || ifnull(t.name, '')
    from thread t left join process p using (upid)
    where utid in (select utid from thread_track join slice on slice.track_id = thread_track.id)`,
  losses: `select name || ' ' || value from stats
    where severity in ('error', 'data_loss') and value > 0`,
};

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const bytesField = (field, bytes) =>
  Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/** The fields of a message: pairs of a number and a value. */
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

/** Starts the engine; gives a function that sends a request and returns the replies. */
async function startEngine() {
  globalThis.self = { location: { href: "file:///" } };
  globalThis.WorkerGlobalScope = class {};
  globalThis.XMLHttpRequest = class {
    open(method, name) {
      this.name = name;
    }
    send() {
      this.response = readFileSync(join(engineFolder, basename(this.name)));
    }
  };
  process.type = "renderer"; // The script refuses to run in plain Node.
  console.log = console.warn = console.error = () => {};
  runInThisContext(readFileSync(join(engineFolder, "engine_bundle.js"), "utf8"));
  let replies = [];
  const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  self.onmessage({ data: port });
  await new Promise((resolve) => setTimeout(resolve, 0));
  let sequence = 0;
  return (method, argument = Buffer.alloc(0)) => {
    const head = Buffer.concat([varint(8), varint(sequence++), varint(16), varint(method)]);
    replies = [];
    port.onmessage({ data: new Uint8Array(bytesField(1, Buffer.concat([head, argument]))) });
    const messages = valuesOf(Buffer.concat(replies), 1);
    for (const message of messages) {
      const fatal = valuesOf(message, 5);
      if (fatal.length > 0) throw new Error(`the engine failed: ${fatal[0]}`);
    }
    return messages;
  };
}

/** The texts that a query of one column answers with. */
function query(request, sql) {
  const argument = bytesField(ARGUMENT.query, bytesField(1, Buffer.from(sql)));
  const rows = [];
  for (const message of request(METHOD.query, argument)) {
    for (const result of valuesOf(message, QUERY_RESULT)) {
      const error = valuesOf(result, 2);
      if (error.length > 0 && error[0].length > 0) throw new Error(`${sql}: ${error[0]}`);
      for (const batch of valuesOf(result, 3)) {
        for (const cells of valuesOf(batch, 5)) {
          rows.push(...cells.toString("utf8").split("\0").slice(0, -1));
        }
      }
    }
  }
  return rows;
}

const request = await startEngine();
const answers = {};
for (const path of tracePaths) {
  request(METHOD.reset);
  request(METHOD.append, bytesField(ARGUMENT.append, readFileSync(path)));
  request(METHOD.finalize);
  const answer = {};
  for (const [name, sql] of Object.entries(QUERIES)) answer[name] = query(request, sql).sort();
  answers[path] = answer;
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
