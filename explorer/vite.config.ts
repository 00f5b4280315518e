import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = join(here, "../src/selfsort/explore/static");

/** The files the page is made of. tests/explore/test_static.py makes the same digest, so that a stale build is seen. */
function digest(): string {
  const hash = createHash("sha256");
  const named = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"];
  const found = ["public", "src"].flatMap((folder) => readdirSync(join(here, folder)).map((name) => `${folder}/${name}`));
  for (const name of [...named, ...found].sort()) {
    hash.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

export default defineConfig({
  base: "./", // every address is relative, wherever the page lives
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: { entryFileNames: "explorer.js", chunkFileNames: "[name].js", assetFileNames: "explorer[extname]" },
    },
  },
  plugins: [
    {
      name: "record-sources",
      closeBundle() {
        writeFileSync(join(out, "sources.sha256"), `${digest()}\n`);
      },
    },
  ],
});
