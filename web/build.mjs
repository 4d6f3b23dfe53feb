// Bundles src/ into the folder that the daemon serves: hashed names, each file also compressed.
import { build } from "esbuild";
import { gzipSync } from "node:zlib";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? join(here, "../src/muster/api/page/static");

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  outdir: join(out, "assets"),
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  metafile: true,
  legalComments: "linked",
  define: { "process.env.NODE_ENV": '"production"' },
});

const entry = Object.entries(metafile.outputs).find(([, found]) => found.entryPoint === "src/main.tsx");
const [script, { cssBundle }] = entry;
const page = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("SCRIPT", `/assets/${basename(script)}`)
  .replace("STYLE", `/assets/${basename(cssBundle)}`);
writeFileSync(join(out, "index.html"), page);
cpSync(join(here, "src/icon.svg"), join(out, "assets/icon.svg"));

for (const folder of [out, join(out, "assets")]) {
  for (const name of readdirSync(folder)) {
    if (/\.(js|css|html|svg)$/.test(name)) {
      const path = join(folder, name);
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  }
}
