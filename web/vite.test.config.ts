// Bundles the unit tests for Node's own test runner.
import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

const tests = readdirSync("test").filter((file) => file.endsWith(".test.ts"));

export default defineConfig({
  build: {
    ssr: true,
    outDir: "../target/web-tests",
    emptyOutDir: true,
    minify: false,
    rollupOptions: { input: tests.map((file) => `test/${file}`) },
  },
});
