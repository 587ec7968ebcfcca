// Import profiles with speedscope's own code and print what it holds, as JSON:
// `importer.mjs RELEASE_FOLDER PROFILE...`.
//
// npm has speedscope only as the script of its page. The script is given a page that
// answers everything with nothing, and its importer is caught when the script names what
// that module exports. Drawing on such a page fails; nothing of that is asked for.

import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { runInThisContext } from "node:vm";

const [releaseFolder, ...profilePaths] = process.argv.slice(2);

// The export that takes the bytes of a file of any format.
const WANTED = "importProfilesFromArrayBuffer";

/** Whatever is asked of it, it answers with itself. */
const nothing = new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => "" : nothing),
  set: () => true,
  apply: () => nothing,
  construct: () => nothing,
});

/** Runs the script of the page; gives its importer. */
async function importer() {
  const define = Object.defineProperty;
  let exported;
  Object.defineProperty = (object, name, description) => {
    if (name === WANTED) exported = description.get;
    return define(object, name, description);
  };
  // What the importer asks of a window must be true: it has no library for long numbers.
  globalThis.window = globalThis;
  for (const name of ["document", "localStorage", "location", "addEventListener"]) {
    define(globalThis, name, { value: nothing, configurable: true });
  }
  console.log = () => {}; // It says which format it takes a file for.
  const name = readdirSync(releaseFolder).find((file) => /^speedscope-.*\.js$/.test(file));
  let drawing;
  try {
    runInThisContext(readFileSync(join(releaseFolder, name), "utf8"));
  } catch (error) {
    drawing = error;
  }
  Object.defineProperty = define;
  // The modules are initialised in promises.
  await new Promise((resolve) => setTimeout(resolve, 0));
  if (exported === undefined) throw new Error(`no ${WANTED} in ${name}: ${drawing?.message}`);
  return exported();
}

/** Weights by name of the frame, summed, for two frames may share a name. */
function framesOf(profile) {
  const frames = {};
  profile.forEachFrame((frame) => {
    const known = frames[frame.name] ?? { self: 0, total: 0 };
    known.self += frame.getSelfWeight();
    known.total += frame.getTotalWeight();
    frames[frame.name] = known;
  });
  return frames;
}

const importProfiles = await importer();
const answers = {};
for (const path of profilePaths) {
  const bytes = new Uint8Array(readFileSync(path));
  const group = await importProfiles(basename(path), bytes.buffer);
  if (group === null) throw new Error(`${basename(path)}: no importer knows it`);
  answers[path] = {
    name: group.name,
    shown: group.indexToView,
    profiles: group.profiles.map((profile) => ({
      name: profile.getName(),
      unit: profile.getWeightUnit(),
      total: profile.getTotalWeight(),
      frames: framesOf(profile),
    })),
  };
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
