import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import type { AnyDefinition } from '../src/core/component.js'
import { checkout } from './support/checkout.js'

/** From the bottom up. A file imports from its own layer and from the layers below it; nothing imports the files at the top. */
const HOUSES = ['lib', 'core', 'net', 'engine', 'components', 'daemon', 'wings', 'cli']
/** Parts without which the daemon is whole. They stand beside each other: none imports another. */
const WINGS = ['page', 'simulate', 'service']

/** Where each package may be imported; `types` where its types may be, when that is more. */
const HOMES: Record<string, { home: RegExp; types?: RegExp }> = {
  // Loaded by createRequire, when it is needed.
  '@swc/wasm-typescript': { home: /^lib\/modules\// },
  '@redis/client': { home: /^net\/redis\/connection\.ts$/ },
  'brace-expansion': { home: /^components\/file\/discovery\/glob\.ts$/ },
  '@photostructure/sqlite': { home: /^service\/api\/store\// },
  pg: { home: /^service\/api\/store\// },
  fastify: { home: /^service\/api\/http\// },
  'mmdb-lib': { home: /^components\/processors\/enrich\/maxmind\.ts$/ },
  picomatch: { home: /^components\/file\// },
  pino: { home: /^daemon\/process\/log/, types: /^(?!lib\/)/ },
  'prom-client': { home: /^engine\/run\/measure\/metrics/ },
  split2: { home: /^(cli\/inspect|components\/journald)\// },
  'string-width': { home: /^daemon\/process\/wrap\.ts$/ },
  yaml: {
    home: /^(engine\/config\/yaml\/|components\/processors\/throttle\/limits-file\.ts|lib\/formats\/yaml-depth\.ts)/,
  },
  zod: { home: /^(?!(lib|daemon(?!\/client)|cli)\/)/ },
}

/** What only some files may say, so that clocks, chance and the end of the process stay in hand. */
const RESERVED: { what: string; pattern: RegExp; allowed: RegExp }[] = [
  {
    what: 'process.exit',
    pattern: /\bprocess\.(exit|abort|reallyExit)\b(?!Code)/,
    allowed: /^cli\/main\.ts$/,
  },
  { what: 'a clock', pattern: /\b(Date|performance)\.now\b|\bnew Date\(\)|\bDate\(\)|\bhrtime\b/, allowed: /^lib\// },
  { what: 'a timer', pattern: /(?<!\.)\bset(Timeout|Interval)\b|['"](node:)?timers/, allowed: /^(lib|cli)\// },
  // It never returns in /proc: makeFolder does.
  { what: 'mkdir with recursive', pattern: /\bmkdir(Sync)?\([^\n]*recursive/, allowed: /^$/ },
  {
    what: 'a thread',
    pattern: /['"](node:)?worker_threads/,
    allowed: /^lib\/files\/disk\/|^service\/api\/store\/sqlite-thread/,
  },
  {
    // It would wait for a remote file system for ever: lib/files/disk/disk.ts has the same calls. portion.ts asks whether the file is a local one.
    what: 'a synchronous call of node:fs',
    pattern: /import (fs\b[^'"]*|\{[^}]*Sync\b[^}]*\} )from ['"]node:fs['"]/,
    allowed: /^(?!components\/file\/(?!destination\.ts|appended-file\.ts))|^components\/file\/reading\/portion\.ts$/,
  },
  {
    // It reads all exports of node:http, which takes long: lib/network/node-http.ts says why.
    what: 'an import of node:http',
    pattern: /import (?!type\b)[^'"]*['"]node:http['"]/,
    allowed: /^$/,
  },
  // Who understands a status says its cause: `causedBy` of a DeliveryError.
  { what: 'a status of HTTP', pattern: /\b(4[012]\d|50[1-9])\b/, allowed: /^(?!engine\/flow\/)/ },
  { what: 'chance', pattern: /\bMath\.random\b/, allowed: /^lib\// },
]

/** They show what facts say. */
const READERS = /^(cli|page|simulate|daemon\/(admin|client|fleet|managed|status|systemd))\//

const TOP_LEVEL =
  `package.json package-lock.json tsconfig.json README.md CHANGELOG.md LICENSE src config test bench docs
    scripts systemd`.split(/\s+/)
const NOT_OURS = new Set(['node_modules', 'dist', '.git', '.tap', '.build', '.sluice-quickstart'])

/** Every file below `folder`, relative to `base`. */
function walk(folder: string, base = folder): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    if (NOT_OURS.has(entry.name)) return []
    const path = join(folder, entry.name)
    return entry.isDirectory() ? walk(path, base) : [relative(base, path)]
  })
}

/** The files that git knows; all of them where this is no checkout, as in a tarball. */
function known(): string[] {
  const { stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: checkout, encoding: 'utf8' })
  const paths = stdout?.split('\0').filter(path => path !== '' && existsSync(join(checkout, path))) ?? []
  return paths.includes('package.json') ? paths : walk(checkout)
}

const read = (...path: string[]) => readFileSync(join(checkout, ...path), 'utf8')
const lines = (text: string) => text.split('\n').length - 1

interface Import {
  readonly specifier: string
  readonly typeOnly: boolean
}

/** Code without its comments. Strings are stepped over: a glob may look like the start of a comment. */
const uncommented = (code: string) =>
  code.replace(
    /('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/.*/g,
    (text, quoted) => (quoted ? text : ''),
  )

function importsOf(code: string): Import[] {
  const from = /^\s*(?:import|export)\s+(type\s)?([^'"]*?)\bfrom\s*['"]([^'"]+)['"]/gm
  const found = [...code.matchAll(from)].map(([, type, what = '', specifier = '']): Import => {
    const names = /^\s*\{([^}]*)\}\s*$/.exec(what)?.[1] ?? '?'
    const typed = names.split(',').every(name => /^\s*(type\s.*)?$/.test(name))
    return { specifier, typeOnly: Boolean(type) || typed }
  })
  const bare = /\bimport(?:\s+|\s*\(\s*)['"]([^'"]+)['"]/g
  return [...found, ...[...code.matchAll(bare)].map(([, specifier = '']) => ({ specifier, typeOnly: false }))]
}

const groupOf = (path: string) => path.split('/')[0]!
const src = new Map(
  walk(join(checkout, 'src'))
    .filter(path => path.endsWith('.ts') && !path.startsWith('page/web/'))
    .map(path => {
      const code = uncommented(read('src', path))
      return [path, { code, imports: importsOf(code) }]
    }),
)
const rankOf = (path: string) => {
  if (/^plugin\/|^[^/]*$/.test(path)) return HOUSES.length
  return HOUSES.indexOf(WINGS.includes(groupOf(path)) ? 'wings' : groupOf(path))
}
/** AssemblyScript has imports without an extension. */
const target = (from: string, specifier: string) =>
  join(dirname(from), specifier).replace(/(?:\.js|(\/[\w-]+))$/, '$1.ts')

t.test('imports point downwards', async t => {
  t.ok(src.size > 10)
  for (const [path, { imports }] of src) {
    t.ok(rankOf(path) >= 0, `src/${path} is in a layer`)
    for (const { specifier } of imports) {
      if (!specifier.startsWith('.')) continue
      const to = target(path, specifier)
      const fine = groupOf(to) === groupOf(path) || rankOf(to) < rankOf(path)
      if (!fine) t.fail(`src/${path} must not import ${to}`)
      if (!src.has(to)) t.fail(`src/${path} imports ${specifier}, which is not there`)
    }
  }
})

/** By path, each file and the files that it imports, types included. */
const needs = new Map(
  [...src].map(([path, { imports }]) => [
    path,
    imports.flatMap(({ specifier }) => (specifier.startsWith('.') ? [target(path, specifier)] : [])),
  ]),
)

t.test('no file needs itself through others', async t => {
  const done = new Set<string>()
  const visit = (path: string, way: readonly string[]): void => {
    const again = way.indexOf(path)
    if (again >= 0) t.fail(`a circle: ${[...way.slice(again), path].join(' > ')}`)
    if (again >= 0 || done.has(path)) return
    for (const next of needs.get(path) ?? []) visit(next, [...way, path])
    done.add(path)
  }
  for (const path of needs.keys()) visit(path, [])
})

/** Plugins get the functions that declare components, with the types that their contract promises. */
const NAMES_OF_A_CONTRACT = /^define(Codec|Source|Processor|Destination|HttpDestination)$/

t.test('a name is declared by one file only', async t => {
  const EXPORT =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:class|interface|type|function\*?|const|let|enum) (?!\{)([\w$]+)/gm
  const declaredBy = new Map<string, string>()
  for (const path of walk(join(checkout, 'src')).filter(path => /\.tsx?$/.test(path))) {
    for (const [, name = ''] of read('src', path).matchAll(EXPORT)) {
      const before = declaredBy.get(name)
      if (before !== undefined && before !== path && !NAMES_OF_A_CONTRACT.test(name))
        t.fail(`${name}: src/${before} and src/${path}`)
      declaredBy.set(name, path)
    }
  }
  t.ok(declaredBy.size > 1000)
})

t.test('a wing is loaded only through its entry, and only when it is needed', async t => {
  for (const [path, { code, imports }] of src) {
    for (const { specifier, typeOnly } of imports) {
      const to = specifier.startsWith('.') ? target(path, specifier) : ''
      const wing = groupOf(to)
      if (!WINGS.includes(wing) || wing === groupOf(path) || typeOnly) continue
      const isEntry =
        path === 'cli/wings.ts' && to === `${wing}/wing.ts` && code.includes(`() => import('${specifier}')`)
      if (!isEntry) t.fail(`src/${path} must not import ${to}`)
    }
  }
})

t.test('lib knows nothing of logs', async t => {
  for (const path of walk(join(checkout, 'src/lib')).filter(path => path.endsWith('.ts'))) {
    const found = /\b(otlp|syslog|msgpack|protobuf|logfmt|gelf|klog|loki|kafka|cri|docker|nginx|apache)\b/i.exec(
      read('src/lib', path),
    )
    if (found) t.fail(`src/lib/${path} must not know ${found[0]}`)
  }
})

t.test('what runs in a browser shares no code with the daemon, and its kit none with the page', async t => {
  const web = walk(join(checkout, 'src/page/web')).filter(path => /^(kit|page)\/.*\.tsx?$/.test(path))
  t.ok(web.length > 10)
  for (const path of web) {
    for (const { specifier, typeOnly } of importsOf(uncommented(read('src/page/web', path)))) {
      if (path === 'page/types.ts' && typeOnly) continue
      const isOwn = specifier.startsWith('.')
      const to = groupOf(join(dirname(path), specifier))
      const fine = isOwn ? to === 'kit' || to === groupOf(path) : /^(preact|@preact\/signals|uplot)\b/.test(specifier)
      if (!fine) t.fail(`src/page/web/${path} must not import ${specifier}`)
    }
  }
})

t.test('only the list of components imports a source', async t => {
  const isSource = (path: string) =>
    /^components\/(?!processors|throttle)[\w-]+\/(source|[\w-]+-source)\.ts$/.test(path)
  for (const [path, { imports }] of src) {
    if (path === 'components/list.ts') continue
    for (const { specifier } of imports) {
      const to = specifier.startsWith('.') ? target(path, specifier) : ''
      if (isSource(to) && dirname(to) !== dirname(path)) t.fail(`src/${path} must not import ${to}`)
    }
  }
})

interface Service {
  readonly dependencies: Readonly<Record<string, string>>
}

t.test('every package has a home', async t => {
  const { dependencies, peerDependencies } = JSON.parse(read('package.json')) as Record<string, object>
  t.same(Object.keys(HOMES).sort(), Object.keys({ ...dependencies, ...peerDependencies }).sort())
  // Only held at a release that runs on Node.js 20: fastify takes the newest one, which does not.
  const { 'light-my-request': _, ...service } = (JSON.parse(read('src/service/package.json')) as Service).dependencies
  t.same(service, peerDependencies, 'the checkout has the packages of the service')
  // npm warns of what does not declare the oldest Node.js, whether it runs there or not.
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { engines?: object }> }
  for (const name of ['dynamic-buffer', 'wasm-utils'])
    t.equal(packages[`node_modules/@platformatic/${name}`]?.engines, undefined, `${name} is installed on each release`)
  const imported = new Set<string>()
  for (const [path, { imports }] of src) {
    for (const { specifier, typeOnly } of imports) {
      if (specifier.startsWith('.') || specifier.startsWith('node:')) continue
      const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
      const { home, types } = HOMES[name] ?? {}
      if (!home) t.fail(`src/${path} imports ${specifier}, which is no dependency`)
      else if (!home.test(path) && !(typeOnly && types?.test(path))) t.fail(`src/${path} is no home of ${specifier}`)
      if (!typeOnly) imported.add(name)
    }
  }
  // They are loaded by createRequire.
  const others = ['brace-expansion', 'picomatch', 'string-width']
  t.same([...imported, ...others].sort(), Object.keys(HOMES).sort(), 'and is imported there')
  const tests = walk(join(checkout, 'test')).filter(path => path.endsWith('.test.ts'))
  const without = tests.filter(path => !importsOf(read('test', path)).some(({ specifier }) => specifier === 'tap'))
  t.same(without, [], 'each test is one of tap')
})

t.test('no file imports itself over others', async t => {
  const done = new Set<string>()
  const visit = (path: string, above: string[]) => {
    const at = above.indexOf(path)
    if (at >= 0) t.fail(`a cycle: ${[...above.slice(at), path].join(' -> ')}`)
    if (at >= 0 || done.has(path)) return
    for (const { specifier, typeOnly } of src.get(path)?.imports ?? []) {
      if (specifier.startsWith('.') && !typeOnly) visit(target(path, specifier), [...above, path])
    }
    done.add(path)
  }
  for (const path of src.keys()) visit(path, [])
})

t.test('the name of a metric is where the metric is declared, and nowhere else', async t => {
  const declared = new Map<string, string>()
  for (const [path, { code }] of src) {
    for (const [, name] of code.matchAll(/['"](sluice_[a-z]\w*_\w+)['"]/g)) {
      if (READERS.test(path)) t.fail(`src/${path} must read a fact, not look for ${name}`)
      const other = declared.get(name!)
      if (other !== undefined) t.fail(`src/${path} and src/${other} have the name ${name}`)
      declared.set(name!, path)
    }
    if (READERS.test(path)) t.notMatch(code, /`sluice_(\w*_)?\$\{/, `src/${path} must not build the name of a metric`)
  }
  t.ok(declared.size > 100)
})

t.test('clocks, timers, chance and exits have their places', async t => {
  for (const [path, { code }] of src) {
    for (const { what, pattern, allowed } of RESERVED) {
      const found = pattern.exec(code)
      if (found && !allowed.test(path)) t.fail(`src/${path} must not use ${what}: ${found[0]}`)
    }
  }
})

t.test('files that are named in text exist', async t => {
  const folders = new Set([...src.keys()].filter(path => path.includes('/')).map(groupOf))
  const texts: [string, string][] = [...src.keys()].map(path => [`src/${path}`, read('src', path)])
  texts.push(['src/README.md', read('src/README.md')])
  for (const [where, text] of texts) {
    for (const [, before, path = ''] of text.matchAll(/(^|[^\w./-])([a-z][\w-]*\/[\w./-]+\.ts)\b/gm))
      if (before !== "'" && folders.has(groupOf(path)) && !src.has(path)) t.fail(`${where} names ${path}`)
  }
})

t.test('lines of documentation end at 120 columns', async t => {
  for (const path of known()) {
    if (!path.endsWith('.md') || path === 'config/reference.md') continue
    // What a program prints, and tables, are as wide as they are.
    const prose = read(path).replace(/^ *```[\s\S]*?^ *```$/gm, fence => fence.replace(/[^\n]+/g, ''))
    for (const [i, line] of prose.split('\n').entries())
      if (line.length > 120 && !line.startsWith('|')) t.fail(`${path}:${i + 1} has ${line.length} columns`)
  }
})

t.test('a folder of a test is removed after its teardowns', async t => {
  for (const path of walk(join(checkout, 'test'))) {
    if (!path.endsWith('.ts') || path === 'support/folder.ts' || path === 'architecture.test.ts') continue
    if (/\.testdir\(/.test(read('test', path))) t.fail(`test/${path} must take testFolder() instead of t.testdir()`)
  }
})

interface Shape {
  description?: string | undefined
  shape?: Record<string, Shape>
  def: { innerType?: Shape; in?: Shape }
}

/** The paths of options without a description, nested ones too. */
function undescribed(schema: Shape, path: string, described = false): string[] {
  const known = described || Boolean(schema.description)
  const inner = schema.def.innerType ?? schema.def.in
  if (inner && !schema.shape) return undescribed(inner, path, known)
  const nested = Object.entries(schema.shape ?? {}).flatMap(([key, value]) => undescribed(value, `${path}.${key}`))
  return known ? nested : [path, ...nested]
}

t.test('every component is described, shown by an example, and tested', async t => {
  const { components } = (await import('../src/components/list.js')) as { components: readonly AnyDefinition[] }
  const unitTests = walk(join(checkout, 'test/unit'))
    .map(path => read('test/unit', path))
    .join('\n')
  t.ok(components.length > 0)
  for (const { kind, type, summary, options, examples } of components) {
    const name = `${kind} ${type}`
    t.match(summary, /^[A-Z].*\.$/, `${name}: a sentence`)
    t.same(undescribed(options as unknown as Shape, name, true), [], `${name}: every option is described`)
    t.ok(examples.length > 0 && examples.every(({ title }) => title), `${name}: has an example`)
    const folder = type.replace(/^std(in|out)$/, 'stdio').replaceAll('_', '-')
    const module = `/src/components/${kind === 'processor' ? `processors/${folder}` : `${folder}/${kind}`}.js'`
    t.ok(unitTests.includes(module), `${name}: has a unit test`)
  }
})

t.test('the checkout has what belongs there, and speaks of no machine', async t => {
  const paths = known()
  const entries = new Set(paths.map(groupOf).filter(name => !name.startsWith('.')))
  t.same(
    [...entries].filter(name => !TOP_LEVEL.includes(name)),
    [],
    'nothing else at the top',
  )
  const registry = process.env.npm_config_registry
  const hosts = registry && !/\bregistry\.npmjs\.org\b/.test(registry) ? [new URL(registry).host] : []
  const forbidden = [
    new RegExp(`(^|[^\\w.-])/${'work'}/`),
    new RegExp(`://[\\w.-]*${'registry'}[\\w.-]*`),
    ...[checkout, ...hosts].map(text => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))),
  ]
  for (const path of paths) {
    const text = read(path)
    for (const pattern of forbidden) {
      const found = pattern.exec(text)
      if (found) t.fail(`${path}:${lines(text.slice(0, found.index + 1)) + 1} speaks of a machine: ${found[0].trim()}`)
    }
  }
})
