// Builds the page into the crate that serves it: three files with stable names, which are
// committed, so that nobody needs Node to build spanwise.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../crates/serve/assets",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
        codeSplitting: false,
      },
    },
  },
});
