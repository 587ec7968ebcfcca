// Traces in the viewers of others, as `spanwise view --in` opens them. Their pages come from local
// copies, under the addresses of their makers, so that who may read the file is tried as it is.

import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import { visitOther } from "./page.mjs";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/** Answers for a maker's address from a folder. */
function serveFolder(folder) {
  return (route) => {
    const path = decodeURIComponent(new URL(route.request().url()).pathname);
    const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
    const isThere = !path.includes("..") && existsSync(file) && statSync(file).isFile();
    if (!isThere) return route.fulfill({ status: 404, body: "" });
    return route.fulfill({ body: readFileSync(file), contentType: TYPES[extname(file)] ?? "application/octet-stream" });
  };
}

async function inSpeedscope(it) {
  await it.page.waitForFunction(() => /llama_small/.test(document.title));
  await it.picture("open");
  return it.page.title();
}

async function inPerfetto(it) {
  const tracks = it.page.locator(".pf-track__title, .track-title, h1").filter({ hasText: /python3|stream 7/ });
  await tracks.first().waitFor({ timeout: 60_000 });
  await it.picture("open");
  return `${await tracks.count()} tracks with our names`;
}

/** What can be tried, given the folders of those that are there. */
export function otherViewers({ speedscope, perfetto }) {
  const all = [
    ["speedscope", "https://www.speedscope.app", speedscope, inSpeedscope],
    ["perfetto", "https://ui.perfetto.dev", perfetto, inPerfetto],
  ];
  return all.filter(([, , folder]) => folder).map(([viewer, origin, folder, check]) => [
    `in-${viewer}`,
    async (trace) => {
      const it = await visitOther(`in-${viewer}`, viewer, trace, origin, serveFolder(folder));
      try {
        assert.ok(it.page.url().startsWith(origin), it.page.url());
        const seen = await check(it);
        await it.close();
        return seen;
      } catch (error) {
        await it.fail();
        throw error;
      }
    },
  ]);
}
