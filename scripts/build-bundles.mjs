// Bundles what runs in a browser, and what destinations use of packages that would bring others, to the files that git
// keeps, so that whoever installs Sluice needs neither a bundler nor these packages. The same sources give the same
// bytes. With --check it compares them instead, and fails where they differ.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { licencesOf, licenceText } from './licences.mjs'

process.chdir(dirname(dirname(fileURLToPath(import.meta.url))))

const COMMON = {
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  format: 'esm',
  charset: 'utf8',
  legalComments: 'none',
}

const web = {
  out: 'src/page/web/bundle',
  entryPoints: { page: 'src/page/web/page/main.tsx' },
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
}

/** The protocol of Kafka, by the names in src/net/kafka/client.ts. */
const KAFKA = `
export * as apiVersionsV3 from '@platformatic/kafka/dist/apis/metadata/api-versions-v3.js'
export * as metadataV9 from '@platformatic/kafka/dist/apis/metadata/metadata-v9.js'
export * as initProducerIdV3 from '@platformatic/kafka/dist/apis/producer/init-producer-id-v3.js'
export * as produceV9 from '@platformatic/kafka/dist/apis/producer/produce-v9.js'
export * as saslHandshakeV1 from '@platformatic/kafka/dist/apis/security/sasl-handshake-v1.js'
export * as saslAuthenticateV2 from '@platformatic/kafka/dist/apis/security/sasl-authenticate-v2.js'
export * as saslPlain from '@platformatic/kafka/dist/protocol/sasl/plain.js'
export * as saslScramSha from '@platformatic/kafka/dist/protocol/sasl/scram-sha.js'
export * as saslOAuthBearer from '@platformatic/kafka/dist/protocol/sasl/oauth-bearer.js'
export { Reader } from '@platformatic/kafka/dist/protocol/reader.js'
export { protocolErrorsCodesById } from '@platformatic/kafka/dist/protocol/errors.js'
export { compressionsAlgorithms } from '@platformatic/kafka/dist/protocol/compression.js'
export { crc32c } from '@platformatic/kafka/dist/protocol/crc32c.js'
`
/** Modules that the package imports and that the protocol does not use, and a checksum that is compiled for one machine. */
const STUBS = [
  [/^ajv\/dist\/2020\.js$/, 'export class Ajv2020 { addKeyword() {} compile() {} }'],
  [/^debug$/, 'export default () => () => {}'],
  [/\/crc32c\.js$/, "export { crc32c } from '@platformatic/wasm-utils'"],
]

const packages = {
  out: 'src/net/bundle',
  entryPoints: { kafka: 'kafka', codecs: '@platformatic/wasm-utils/bundled' },
  platform: 'node',
  target: 'node20',
  external: ['./codecs.js'],
  plugins: [
    {
      name: 'packages',
      setup({ onResolve, onLoad }) {
        onResolve({ filter: /^kafka$/ }, () => ({ path: KAFKA, namespace: 'text' }))
        for (const [filter, code] of STUBS) onResolve({ filter }, () => ({ path: code, namespace: 'text' }))
        onResolve({ filter: /^@platformatic\/wasm-utils$/ }, () => ({ path: './codecs.js', external: true }))
        onLoad({ filter: /./, namespace: 'text' }, ({ path }) => ({ contents: path, resolveDir: process.cwd() }))
        // Of modules that are not stubs, only what is used.
        onResolve({ filter: /^(@platformatic\/kafka\/dist|\.\.?)\// }, ({ path, importer }) => {
          const isOwn = importer.includes('/@platformatic/kafka/')
          const file = isOwn ? join(dirname(importer), path) : join(process.cwd(), 'node_modules', path)
          return isOwn || path.startsWith('@') ? { path: file, sideEffects: false } : undefined
        })
      },
    },
  ],
}

/** The licences of the packages in a bundle, which ask to be kept with copies. */
function licences({ inputs }) {
  const folders = Object.keys(inputs).flatMap(path => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
  return licenceText(licencesOf([...new Set(folders)].sort()))
}

for (const { out, ...options } of [web, packages]) {
  const { outputFiles, metafile } = await build({ ...COMMON, outdir: out, ...options })
  const built = outputFiles.map(({ path, contents }) => [join(out, path.split('/').pop()), Buffer.from(contents)])
  built.push([join(out, 'LICENSES.txt'), Buffer.from(licences(metafile))])
  for (const [path, bytes] of built) {
    if (!process.argv.includes('--check')) writeFileSync(path, bytes)
    else if (!bytes.equals(readFileSync(path))) {
      process.stderr.write(`${path} is not what its sources are bundled to. Run "npm run build bundles".\n`)
      process.exitCode = 1
    }
  }
}
