// Bundles what runs in a browser to the files that git keeps, so that whoever installs Sluice needs no bundler. The same
// sources give the same bytes. With --check it compares them instead, and fails where they differ.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))
const OUT = 'src/web/bundle'

const { outputFiles, metafile } = await build({
  entryPoints: { page: 'src/web/page/main.tsx' },
  outdir: OUT,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  jsx: 'automatic',
  jsxImportSource: 'preact',
})

/** The licences of the packages in the bundle, which ask to be kept with copies. */
function licences() {
  const folders = Object.keys(metafile.inputs).flatMap(
    path => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [],
  )
  return [...new Set(folders)].sort().map(folder => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry))
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
  })
}

const built = outputFiles.map(({ path, contents }) => [join(OUT, path.split('/').pop()), Buffer.from(contents)])
built.push([join(OUT, 'LICENSES.txt'), Buffer.from(licences().join(`\n${'-'.repeat(72)}\n\n`))])
for (const [path, bytes] of built) {
  if (!process.argv.includes('--check')) writeFileSync(path, bytes)
  else if (!bytes.equals(readFileSync(path))) {
    process.stderr.write(`${path} is not what src/web is bundled to. Run "npm run build:web".\n`)
    process.exitCode = 1
  }
}
