// Writes the page of the studio, ../src/dissonance/studio/page/: `npm run build`; `npm run build -- --check` compares instead.
import { build } from "esbuild";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, "..", "src", "dissonance", "studio", "page");
const common = { absWorkingDir: here, bundle: true, minify: true, sourcemap: true, write: false, metafile: true,
  target: ["es2022"], charset: "utf8", outdir: page, entryNames: "[name]", logLevel: "warning" };

/** The licences of the packages in a bundle, each text once. */
async function licences(metafile) {
  const names = new Set(Object.keys(metafile.inputs).flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []));
  const byText = new Map();
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const file = (await readdir(folder)).find((f) => /^licen[cs]e/i.test(f));
    if (!file) throw new Error(`${name} has no licence file`);
    const text = (await readFile(join(folder, file), "utf8")).trim();
    byText.set(text, [...(byText.get(text) ?? []), name]);
  }
  const parts = [...byText].map(([text, owners]) => `${owners.join(", ")}\n\n${text}`);
  return parts.length ? `/*!\nThis file contains:\n\n${parts.join("\n\n")}\n*/` : "";
}

async function outputs() {
  const settings = { ...common, format: "esm", entryPoints: { app: "src/main.js" } };
  const banner = await licences((await build(settings)).metafile);
  const scripts = await build({ ...settings, banner: { js: banner } });
  const styles = await build({ ...common, entryPoints: { app: "style/app.css" }, sourcemap: false });
  const files = new Map([...scripts.outputFiles, ...styles.outputFiles].map((f) => [f.path.slice(page.length + 1), f.contents]));
  files.set("index.html", await readFile(join(here, "index.html")));
  return files;
}

const files = await outputs();
if (process.argv.includes("--check")) {
  const same = async (name, content) => Buffer.compare(Buffer.from(content), await readFile(join(page, name)).catch(() => Buffer.alloc(0))) === 0;
  const stale = [];
  for (const [name, content] of files) if (!(await same(name, content))) stale.push(name);
  if (stale.length) {
    console.error(`not what the sources give: ${stale.join(", ")}. Run \`npm run build\` in studio/ and commit.`);
    process.exit(1);
  }
} else {
  await mkdir(page, { recursive: true });
  for (const [name, content] of files) await writeFile(join(page, name), content);
  console.log([...files].map(([name, content]) => `${name} ${(content.length / 1024).toFixed(0)} KiB`).join(", "));
}
