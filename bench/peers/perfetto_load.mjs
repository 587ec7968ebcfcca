// Load a trace with Perfetto's engine, in its build for 64-bit memory, fed as its web
// page feeds it: `perfetto_load.mjs ENGINE_FOLDER TRACE`.

import { openSync, readSync } from "node:fs";
import { basename } from "node:path";

import { Engine } from "./perfetto_engine.mjs";

const [engineFolder, tracePath] = process.argv.slice(2);

// The size in which the engine takes its input.
const CHUNK_BYTES = 32 << 20;

process.on("uncaughtException", (error) => {
  process.stderr.write(`${String(error).slice(0, 500)}\n`);
  process.exit(1);
});
const engine = await Engine.start(engineFolder);

const start = performance.now();
const trace = openSync(tracePath);
const chunk = Buffer.alloc(CHUNK_BYTES);
for (let length; (length = readSync(trace, chunk)) > 0; ) {
  engine.append(chunk.subarray(0, length));
}
engine.finalize();
const loadSeconds = (performance.now() - start) / 1000;

const count = (sql) => Number(engine.query(sql)[0]).toLocaleString("en");
const slices = count("select cast(count(*) as text) from slice");
const dropped = count(
  `select cast(cast(ifnull(sum(value), 0) as int) as text) from stats
    where severity in ('error', 'data_loss')`,
);
process.stdout.write(
  `${JSON.stringify({
    load_s: loadSeconds,
    version: basename(engineFolder).split("-")[0].replace("v", ""),
    read: `${slices} slices, ${dropped} errors`,
  })}\n`,
);
process.exit(0);
