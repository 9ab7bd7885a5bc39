import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { built } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** What a start loads: loading a module takes about half a millisecond, and most of a start is spent on that. */

const src = join(built, 'src')

/** The modules that a run of this configuration loads: paths of our own, and names of packages. */
async function loadedBy(t: Test, config: string) {
  const folder = testFolder(t, { 'in.log': 'one line\n' })
  writeFileSync(join(folder, 'sluice.yaml'), `data_dir: ${join(folder, 'state')}\nmetrics: false\n${config}`)
  // The report of the coverage names every script.
  const coverage = join(folder, 'coverage')
  const run = sluice(['run', 'sluice.yaml'], { cwd: folder, env: { NODE_V8_COVERAGE: coverage } })
  run.child.stdin!.end('one line\n')
  t.equal(await run.exit, 0, run.stderr)
  return loadedIn(coverage)
}

function loadedIn(coverage: string) {
  const own = new Set<string>()
  const packages = new Set<string>()
  for (const report of readdirSync(coverage)) {
    const { result } = JSON.parse(readFileSync(join(coverage, report), 'utf8')) as { result: { url: string }[] }
    for (const { url } of result) {
      if (!url.startsWith('file:')) continue
      const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? []
      if (name) packages.add(name)
      else if (fileURLToPath(url).startsWith(src)) own.add(relative(src, fileURLToPath(url)))
    }
  }
  return { own: [...own].sort(), packages }
}

/** It was 302 when this was written, of more than 800. */
const MOST_OWN = 315
const LARGE_PACKAGES = ['@photostructure/sqlite', 'fastify', 'pg', 'prom-client']
const FOLDERS = /^(page|simulate|service|daemon\/(client|fleet|managed)|cli\/(check|inspect))\//
const OF_OTHERS =
  /^(core\/explain|components\/file\/discovery\/include-warnings|net\/bundle\/.*|components\/(http|journald|tcp)\/\w+-source|components\/processors\/throttle\/throttle-processor|core\/codecs\/(csv|grok\/grok|syslog\/syslog)|net\/http\/client\/http-destination|engine\/flow\/disk-buffer\/disk-buffer)\.js$/

t.test('a run from file to file loads nothing of other components, of the service, or of other commands', async t => {
  const config = `sources: { in: { type: file, include: [in.log], follow: false } }
destinations: { out: { type: file, inputs: [in], path: out.log } }
`
  const { own, packages } = await loadedBy(t, config)
  t.ok(own.includes('components/file/file-source.js'), 'the list of modules is complete')
  t.same(
    own.filter(path => FOLDERS.test(path) || OF_OTHERS.test(path)),
    [],
  )
  t.same(
    LARGE_PACKAGES.filter(name => packages.has(name)),
    [],
  )
  t.ok(own.length <= MOST_OWN, `${own.length} modules`)
})

t.test('a run without a file source does not load it, and loads what it has', async t => {
  // The key makes a warning, because no line of text has it.
  const config = `sources: { in: { type: stdin } }
processors: { few: { type: throttle, inputs: [in], limit: 1, window: 1s, key_field: .app } }
destinations: { out: { type: blackhole, inputs: [few], buffer: { type: disk } } }
`
  const { own } = await loadedBy(t, config)
  t.notOk(own.includes('components/file/file-source.js'))
  t.ok(own.includes('components/processors/throttle/throttle-processor.js'))
  t.ok(own.includes('engine/flow/disk-buffer/disk-buffer.js'))
  t.same(
    own.filter(path => /^(components|core\/condition)\/.*(explain|warnings|list)\.js$/.test(path)),
    [],
    'nothing that explains or checks options, and no list of all components',
  )
})

t.test('a run loads the codecs that it names, and all of them where records on the disk may name any', async t => {
  const sources = 'sources: { in: { type: stdin, decode: { codec: regex, pattern: "(?<a>.*)" } } }\n'
  const named = await loadedBy(t, `${sources}destinations: { out: { type: blackhole, inputs: [in] } }\n`)
  t.same(
    named.own.filter(path => /^core\/codecs\/(csv|grok\/grok|regex|syslog\/syslog)\.js$/.test(path)),
    ['core/codecs/regex.js'],
  )
  const disk = await loadedBy(
    t,
    `${sources}destinations: { out: { type: blackhole, inputs: [in], buffer: { type: disk } } }\n`,
  )
  t.same(
    disk.own.filter(path => /^core\/codecs\/(csv|grok\/grok|regex|syslog\/syslog)\.js$/.test(path)),
    ['core/codecs/csv.js', 'core/codecs/grok/grok.js', 'core/codecs/regex.js', 'core/codecs/syslog/syslog.js'],
  )
})

/** It was 52 when this was written. */
const MOST_OF_STATUS = 60

t.test('status of a daemon whose configuration has not changed reads no configuration', async t => {
  const folder = testFolder(t)
  const config = `data_dir: ${join(folder, 'state')}
metrics: false
sources: { in: { type: stdin } }
destinations: { out: { type: blackhole, inputs: [in] } }
`
  writeFileSync(join(folder, 'sluice.yaml'), config)
  const daemon = sluice(['run', 'sluice.yaml'], { cwd: folder })
  await until('it runs', () => existsSync(join(folder, 'state/sluice.sock')))
  const coverage = join(folder, 'coverage')
  const statusOf = async (path: string) => {
    const status = sluice(['status', '--config', path], { cwd: folder, env: { NODE_V8_COVERAGE: coverage } })
    await status.exit
    return status.stdout
  }
  // The daemon was given a relative path.
  t.match(await statusOf(join(folder, 'sluice.yaml')), 'Nothing is wrong.')
  const { own, packages } = loadedIn(coverage)
  t.same([...packages], [])
  t.ok(own.includes('cli/inspect/status.js') && own.length <= MOST_OF_STATUS, `${own.length} modules`)
  writeFileSync(join(folder, 'sluice.yaml'), `${config}wrong: true\n`)
  t.match(await statusOf('sluice.yaml'), 'the configuration cannot be used any more')
  daemon.child.stdin!.end()
  t.equal(await daemon.exit, 0, daemon.stderr)
})
