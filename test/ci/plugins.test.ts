import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { checkCodec, checkDestination, checkProcessor, loadPlugin } from '../../src/testing.js'
import { sluiceMain } from '../support/checkout.js'
import { command } from '../support/cli.js'
import { docBlocks, fileName } from '../support/doc-blocks.js'
import { rounds } from '../support/long-test.js'
import { parsedLines } from '../support/parsed-lines.js'
import { sluice } from '../support/sluice.js'

/** Plugins as users make them: in a folder outside of the project, by the recipe alone. */

function outside(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-plugin-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function run(cwd: string, args: readonly string[], input = '') {
  return spawnSync(process.execPath, args, { cwd, input, encoding: 'utf8' })
}

/** Holds the default address of the metrics, unless somebody else does. */
async function withDaemonBeside(t: Test): Promise<void> {
  const server = createServer().listen(9598, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening').catch(() => {})
}

const KINDS = [
  ['processor', true],
  ['destination', false],
  ['processor', false],
  ['source', true],
  ['codec', true],
] as const
for (const [kind, typed] of KINDS.slice(0, rounds(KINDS.length, 2))) {
  const name = `my_${kind}`
  t.test(`sluice new ${kind}${typed ? ' --typescript' : ''}: all of it works as it is written`, async t => {
    await withDaemonBeside(t)
    const parent = outside(t)
    const made = run(parent, [sluiceMain, 'new', kind, name, ...(typed ? ['--typescript'] : [])])
    t.equal(made.status, 0, made.stderr)
    const folder = join(parent, name)
    // It removes what no dependency is for, as it does when it installs anything else.
    if (kind === 'processor')
      execFileSync('npm', ['install', '--no-save', '--offline', '--no-audit', '--prefix', folder], { stdio: 'pipe' })
    const tested = run(folder, ['--test'])
    t.equal(tested.status, 0, tested.stdout)
    const valid = await command(['validate', 'sluice.yaml'], { cwd: folder })
    t.match(valid, { code: 0, stdout: /0 errors, 0 warnings/ }, valid.stderr)
    if (kind === 'processor') {
      const behind = `plugins: [./${name}.${typed ? 'ts' : 'js'}]
sources: { lines: { type: stdin } }
processors:
  made: { type: ${name}, inputs: [lines] }
  limit: { type: throttle, inputs: [made], limit: 1, window: 1s, key_field: .length }
destinations: { out: { type: stdout, inputs: [limit] } }
`
      writeFileSync(join(folder, 'behind.yaml'), behind)
      t.match(await command(['validate', 'behind.yaml'], { cwd: folder }), { code: 0, stdout: /0 warnings/ })
      const called = async (...args: string[]) => (await command(args, { cwd: folder })).stdout
      t.match(await called('graph', 'sluice.yaml'), `${name} (${name})`)
      t.match(await called('test', 'sluice.yaml'), '1 passed, 0 failed')
      t.match(await called('docs', 'config', '-c', 'sluice.yaml'), 'reference.md')
      t.match(readFileSync(join(folder, 'reference.md'), 'utf8'), `### Processor \`${name}\``)
      t.match(JSON.parse(readFileSync(join(folder, 'schema.json'), 'utf8')), { title: 'Sluice configuration' })
      t.match(readFileSync(join(folder, 'schema.json'), 'utf8'), 'Characters of the longest text that passes.')
    }
    const ran = run(folder, [sluiceMain, 'run', 'sluice.yaml'], '{"message":"WARN disk"}\n')
    t.equal(ran.status, 0, ran.stderr)
    const shown = kind === 'destination' ? readFileSync(join(folder, 'events.ndjson'), 'utf8') : ran.stdout
    t.match(shown, /"message":/, 'the event arrives')
    t.match(await command(['new', kind, name], { cwd: parent }), { code: 2, stderr: /exists already/ })
    const taken = { processor: 'throttle', destination: 'http', source: 'file', codec: 'json' }[kind]
    t.match(await command(['new', kind, taken], { cwd: parent }), { code: 2, stderr: /has a \w+ \w+ already/ })
  })
}

/** Writes the modules of a page into a folder of their own, with a configuration that has them as its plugins. */
function pluginsOf(t: Test, page: string, rest: string) {
  const folder = outside(t)
  const files = docBlocks(page).flatMap(block => {
    const name = fileName(block)
    return name === undefined ? [] : [[name, block.text] as const]
  })
  const config = `data_dir: ./state\nplugins: [${files.map(([name]) => `./${name}`)}]\nmetrics: false\n${rest}`
  for (const [name, text] of [...files, ['sluice.yaml', config] as const]) writeFileSync(join(folder, name), text)
  let opened = 0
  return {
    files,
    load: (name: string) => loadPlugin(join(folder, name)),
    open() {
      const path = join(folder, `checked-${opened++}.log`)
      writeFileSync(path, '')
      return { options: { path }, arrived: () => readFileSync(path, 'utf8') }
    },
    /** What the destination of the configuration has written in the end. */
    shipped(input: string) {
      const { status, stderr } = run(folder, [sluiceMain, 'run', 'sluice.yaml'], input)
      t.equal(status, 0, stderr)
      return readFileSync(join(folder, 'out.log'), 'utf8')
    },
  }
}

t.test('the components of docs/plugins.md keep to the contract, and ship events', async t => {
  const config = `sources:
  memory: { type: memory, every: 1ms, times: 3 }
  lines: { type: stdin, decode: bars }
processors:
  above: { type: above, inputs: [memory], field: .bytes, least: 1 }
destinations:
  out: { type: append, inputs: [above, lines], path: ./out.log }
`
  const { load, open, shipped } = pluginsOf(t, 'docs/plugins.md', config)
  t.same(await checkProcessor((await load('processor.js')).above), [])
  t.same(await checkCodec((await load('codec.js')).bars), [])
  t.same(await checkDestination((await load('destination.js')).append, open), [])
  const out = shipped('WARN|disk full\n')
  t.equal(out.match(/"message":"memory","bytes":\d+/g)?.length, 3)
  t.match(out, '"level":"WARN","message":"disk full"')
})

t.test('so do those of src/README.md, which have at most 15 lines', async t => {
  const config = `sources:
  hello: { type: hello, app: cart }
  lines: { type: stdin, decode: bars }
processors:
  named: { type: has_text, inputs: [hello], field: .app }
destinations:
  out: { type: append, inputs: [named, lines], path: ./out.log }
`
  const { files, load, open, shipped } = pluginsOf(t, 'src/README.md', config)
  t.equal(files.length, 4)
  for (const [name, text] of files) t.ok(text.trim().split('\n').length <= 15, name)
  t.same(await checkProcessor((await load('has-text.js')).hasText), [])
  t.same(await checkCodec((await load('bars.js')).bars), [])
  t.same(await checkDestination((await load('append.js')).append, open), [])
  const out = shipped('WARN|disk full\n').split('\n').sort()
  t.match(out, ['', '{"app":"cart"}', /^\{"level":"WARN","message":"disk full".*\}$/])
})

const plugin = (mark: number, rest = '') => `import { defineProcessor, z } from '@sluice-logs/sluice/plugin'
import { field } from './field.js'
${rest}
export const marks = defineProcessor({
  contract: 1, type: 'marks', summary: 'Marks events.', options: z.strictObject({}),
  examples: [{ title: 'All', yaml: '' }],
  create(_, context) {
    const seen = context.metrics.counter('company_marked_total', 'Events that were marked.')
    return {
      process(batch) {
        for (let i = 0; i < batch.length; i++) {
          if (batch.fields(i).n < 0) throw new Error('negative')
          batch.modify(i, { ...batch.fields(i), [field]: ${mark} })
          seen.value++
        }
      },
    }
  },
})
`

t.test('a reload takes up a changed plugin, and what it throws costs no other event and not the daemon', async t => {
  const folder = outside(t)
  const files = {
    'company.js': plugin(1),
    'field.js': `export const field = 'first'`,
    'in.log': '',
    'out.log': '',
    'sluice.yaml': `data_dir: ./state
plugins: [./company.js]
metrics: { listen: 127.0.0.1:0 }
sources: { app: { type: file, include: [in.log], decode: json, scan_interval: 50ms } }
processors: { mark: { type: marks, inputs: [app], on_error: discard } }
destinations: { out: { type: file, inputs: [mark], path: out.log } }
`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  const logs = () => parsedLines<Record<string, string>>(daemon.stderr)
  const out = () => readFileSync(join(folder, 'out.log'), 'utf8').split('\n').slice(0, -1)
  const put = async (n: number, lines: number) => {
    appendFileSync(join(folder, 'in.log'), `{"n":${n}}\n`)
    await daemon.until(() => out().length === lines)
  }
  const reload = async (text: string) => {
    writeFileSync(join(folder, 'company.js'), text)
    const before = logs().length
    daemon.child.kill('SIGHUP')
    return await daemon.until(() =>
      logs()
        .slice(before)
        .find(({ msg }) => /configuration/.test(msg!)),
    )
  }
  await put(1, 1)
  writeFileSync(join(folder, 'field.js'), `export const field = 'second'`)
  t.match(await reload(plugin(1)), { msg: 'configuration reloaded' })
  await put(2, 2)
  t.match(await reload(`${plugin(3)} oops(`), { error: /^sluice\.yaml:2:11: plugins\[0\]: cannot be loaded: / })
  await put(3, 3)
  const fault = `setTimeout(() => { throw new Error('in a timer') }, 1)\nsetTimeout(() => Promise.reject(new Error('rejected')), 1)\n`
  await reload(plugin(4, fault))
  await daemon.until(() => logs().filter(({ code }) => code === 'SLUICE_PLUGIN_FAULT').length === 2)
  t.match(
    logs().find(({ code }) => code === 'SLUICE_PLUGIN_FAULT'),
    { error: 'in a timer', place: /company\.js:3:2/ },
  )
  appendFileSync(join(folder, 'in.log'), '{"n":-1}\n')
  await put(4, 4)
  t.same(
    out().map(line => JSON.parse(line)),
    [
      { n: 1, first: 1 },
      { n: 2, second: 1 },
      { n: 3, second: 1 },
      { n: 4, second: 4 },
    ],
  )
  const metrics = await (await fetch(logs().find(({ url }) => url?.endsWith('/metrics'))!.url!)).text()
  t.match(metrics, /^company_marked_total\{component_id="mark"\} 4$/m)
  t.match(metrics, /^sluice_plugin_faults_total 2$/m)
  t.match(metrics, /^sluice_component_discarded_events_total\{.*reason="processing_failed".*\} 1$/m)
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

const counting = (version: number) => `import { defineProcessor, z } from '@sluice-logs/sluice/plugin'
export const counts = defineProcessor({
  contract: 1, type: 'counts', summary: 'Counts events.', options: z.strictObject({}),
  examples: [{ title: 'All', yaml: '' }],
  create(_, context) {
    let n = context.inherited ?? 0
    return {
      process(batch) {
        for (let i = 0; i < batch.length; i++) batch.modify(i, { version: ${version}, n: ++n })
      },
      handOver: () => ({ value: n }),
    }
  },
})
`

t.test(
  'a package that is upgraded in its folder runs after a restart, without the state of the version before',
  async t => {
    const folder = outside(t)
    const place = join(folder, 'node_modules/counter')
    const install = (version: number) => {
      mkdirSync(place, { recursive: true })
      const about = { name: 'counter', version: `${version}.0.0`, type: 'module', main: 'index.js' }
      writeFileSync(join(place, 'package.json'), JSON.stringify(about))
      writeFileSync(join(place, 'index.js'), counting(version))
    }
    const configure = (rotateWait: string) =>
      writeFileSync(
        join(folder, 'sluice.yaml'),
        `data_dir: ./state
plugins: [counter]
metrics: false
sources: { app: { type: file, include: [in.log], scan_interval: 50ms, rotate_wait: ${rotateWait} } }
processors: { count: { type: counts, inputs: [app] } }
destinations: { out: { type: file, inputs: [count], path: out.log } }
`,
      )
    const start = async () => {
      const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: folder })
      t.teardown(() => daemon.child.kill('SIGKILL'))
      await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
      return daemon
    }
    const out = () => readFileSync(join(folder, 'out.log'), 'utf8').split('\n').slice(0, -1)
    const put = async ({ until }: Awaited<ReturnType<typeof start>>) => {
      const lines = out().length
      appendFileSync(join(folder, 'in.log'), 'line\n')
      await until(() => out().length > lines)
      return JSON.parse(out().at(-1)!)
    }
    for (const name of ['in.log', 'out.log']) writeFileSync(join(folder, name), '')
    install(1)
    configure('1s')
    const first = await start()
    t.same(await put(first), { version: 1, n: 1 })
    install(2)
    configure('2s')
    first.child.kill('SIGHUP')
    await first.until(() => first.stderr.includes('configuration reloaded'))
    t.same(await put(first), { version: 1, n: 2 }, 'a reload loads no package again')
    first.child.kill('SIGTERM')
    t.equal(await first.exit, 0)
    t.same(await put(await start()), { version: 2, n: 1 })
  },
)
