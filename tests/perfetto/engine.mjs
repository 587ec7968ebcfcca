// Open traces with Perfetto's engine and print what it holds, as JSON:
// `engine.mjs ENGINE_FOLDER TRACE...`.

import { readFileSync } from "node:fs";

import { Engine } from "../../bench/peers/perfetto_engine.mjs";

const [engineFolder, ...tracePaths] = process.argv.slice(2);

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

const engine = await Engine.start(engineFolder);
const answers = {};
for (const path of tracePaths) {
  engine.reset();
  engine.append(readFileSync(path));
  engine.finalize();
  const answer = {};
  for (const [name, sql] of Object.entries(QUERIES)) answer[name] = engine.query(sql).sort();
  answers[path] = answer;
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
