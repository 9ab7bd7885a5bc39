import {
  appendFileSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { validate } from '../../../../src/cli/check/validate.js'
import { fileSource } from '../../../../src/components/file/source.js'
import { type AnyDefinition, defineDestination } from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { orphanMetrics } from '../../../../src/daemon/run/gauges.js'
import { problemsOf } from '../../../../src/daemon/status/problems.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { lockDataDir } from '../../../../src/engine/run/state/data-dir.js'
import {
  discardOrphans,
  findOrphans,
  type Orphan,
  type OrphanConfig,
} from '../../../../src/engine/run/state/inventory.js'
import { leftBehind, objectionTo } from '../../../../src/engine/run/state/objections.js'
import { carryOver, renamesOf } from '../../../../src/engine/run/state/renames.js'
import { type ReplaceOptions, Supervisor } from '../../../../src/engine/run/supervisor.js'
import { systemClock } from '../../../../src/lib/time.js'
import { casesOf } from '../../../support/cases.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

/** What the destinations of a test got, whatever their names. */
let got: string[] = []

const collect = defineDestination({
  type: 'collect',
  ...madeUp('Keeps what it gets.'),
  options: z.strictObject({ how: z.enum(['takes', 'refuses', 'retries', 'hangs', 'cannot_start']).default('takes') }),
  delivery: LOCAL_DEFAULTS,
  create: ({ how }) => ({
    async start() {
      if (how === 'cannot_start') throw new Error('not on this machine')
    },
    async write(request, signal) {
      if (how === 'hangs') return new Promise((_, reject) => signal.addEventListener('abort', reject))
      if (how === 'refuses') throw new DeliveryError('400', { failure: 'reject', reason: 'status_400' })
      if (how === 'retries') throw new DeliveryError('503', { failure: 'retry', reason: 'status_503' })
      for (const batch of request) for (let i = 0; i < batch.length; i++) got.push(batch.line(i).toString())
      return undefined
    },
  }),
})
const components: readonly AnyDefinition[] = [fileSource, collect]

/** A folder with a log, and what runs on it one after the other. */
function world(t: Test) {
  got = []
  const folder = testFolder(t, { 'a.log': 'one\ntwo\n' })
  const state = join(folder, 'state')
  const yaml = (source: string, destination: string, more = '') =>
    `data_dir: ${state}\nmetrics: false\nshutdown_timeout: 200ms\n${more}
sources: { ${source.replace('*', `type: file, include: [${folder}/a.log]`)} }
destinations: { ${destination.replace('*', `type: collect, inputs: [${/^\w+/.exec(source)}]`)} }
`
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => void logged.push(JSON.parse(line)) })
  const read = (text: string) => parseConfig(text, 'test.yaml', { env: {}, components })
  return {
    folder,
    state,
    yaml,
    logged,
    read,
    append: (text: string) => appendFileSync(join(folder, 'a.log'), text),
    async start(text: string) {
      const metrics = new Metrics(log)
      const io = { stdin: new PassThrough(), stdout: new PassThrough() }
      const supervisor = await Supervisor.build(read(text), {
        log,
        clock: systemClock,
        random: () => 0.1,
        metrics,
        ...io,
      })
      orphanMetrics(metrics, () => supervisor.orphans)
      const run = supervisor.run()
      const stop = async () => {
        supervisor.stop(AbortSignal.timeout(200))
        await run
      }
      t.teardown(stop)
      return {
        supervisor,
        stop,
        replace: (next: string, options?: ReplaceOptions) => supervisor.replace(read(next), options),
        scrape: async () => String(await metrics.render()),
        reported: () => problemsOf({ wall: 0, metrics, components: [], destinations: [], sources: [], processors: [] }),
      }
    },
    async check(text: string) {
      const path = join(folder, 'checked.yaml')
      writeFileSync(path, text)
      let said = ''
      const to = { write: (part: string) => void (said += part) } as never
      const code = await validate([path], {}, { stdout: to, stderr: to }, components)
      return { code, said }
    },
  }
}

t.test('a renamed source: validate refuses it, a start warns, and renamed_from continues', async t => {
  const { yaml, start, check, append, logged, state } = world(t)
  const first = await start(yaml('app: { * }', 'out: { * }'))
  await until(() => got.length === 2)
  await first.stop()

  const renamed = yaml('logs: { * }', 'out: { * }')
  const { code, said } = await check(renamed)
  t.equal(code, 78)
  t.match(
    said,
    /checked\.yaml:5:12: sources\.logs: would read .*a\.log from the beginning: the source app, which has read it/,
  )
  t.match(said, /Set "renamed_from: app"/)
  const kept = yaml('logs: { *, renamed_from: app }', 'out: { * }')
  t.match(await check(kept), { code: 0, said: /^[^\n]*: ok [^\n]*\n0 errors, 0 warnings\n$/ })
  t.match(await check(yaml('logs: { * }', 'out: { * }', 'discard_orphans: [app]')), { code: 0 })
  copyFileSync(join(state, 'checkpoints/app.json'), join(state, 'checkpoints/logs.json'))
  t.match(await check(renamed), { code: 0 }, 'a source with positions of its own reads nothing again')
  rmSync(join(state, 'checkpoints/logs.json'))

  append('three\n')
  for (let n = 0; n < 2; n++) {
    const again = await start(kept)
    await until(() => got.length === 3)
    t.same(again.supervisor.orphans, [])
    await again.stop()
  }
  t.same(got, ['one', 'two', 'three'], 'nothing is repeated, also at later starts')
  t.same(
    readdirSync(join(state, 'checkpoints')).filter(name => name.startsWith('app')),
    [],
  )

  logged.length = 0
  const anew = await start(yaml('other: { * }', 'out: { * }'))
  t.match(
    logged.find(({ code }) => code === 'SLUICE_SOURCE_REPEATS'),
    { level: 40, error: /the source logs, which has read it/ },
  )
  t.match(
    logged.find(({ code }) => code === 'SLUICE_ORPHANED'),
    { level: 40, kind: 'checkpoint', component: 'logs', advice: /renamed_from: logs/ },
  )
  await until(() => got.length === 6)
  t.match(anew.reported(), {
    notices: [{ what: /^logs is not configured any more and left saved positions/ }],
    problems: [], // no events are left
  })
})

t.test('a reload does not start from the beginning, and takes positions back when it cannot start', async t => {
  const { yaml, start, append } = world(t)
  const out = 'out: { * }'
  const { replace, supervisor } = await start(yaml('app: { * }', out))
  await until(() => got.length === 2)
  await replace(yaml('app: { *, scan_interval: 3s }', out))
  await t.rejects(replace(yaml('logs: { * }', out)), { message: /sources\.logs: would read/ })
  append('three\n')
  await until(() => got.length === 3)
  await replace(yaml('logs: { *, renamed_from: app }', out))
  append('four\n')
  await until(() => got.length === 4)
  await replace(yaml('third: { *, renamed_from: logs }', 'out: { *, how: cannot_start }', 'discard_orphans: [gone]'))
  append('five\n')
  await until(() => got.length === 5)
  t.same(valuesOf(supervisor.config.sources, 'id'), ['logs'])
  t.same(got, ['one', 'two', 'three', 'four', 'five'])
})

t.test('a renamed destination: its buffer and dead letters are seen until they are taken over or let go', async t => {
  const { yaml, start, check, state, logged } = world(t)
  const app = 'app: { * }'
  const first = await start(yaml(app, 'old: { *, how: retries, buffer: { type: disk, max_bytes: 1GB } }'))
  await until(() => existsSync(join(state, 'buffer/old')) && logged.some(({ msg }) => /retr|again/.test(String(msg))))
  await first.stop()
  mkdirSync(join(state, 'dead-letter'), { recursive: true })
  writeFileSync(join(state, 'dead-letter/old.ndjson'), '{"a":1}\n')

  const memory = yaml(app, 'new: { * }')
  const { code, said } = await check(memory)
  t.equal(code, 0)
  t.match(said, /warning: old is not configured and has 2 events \(buffer\)/)
  const second = await start(memory)
  const text = await second.scrape()
  t.match(text, /^sluice_orphaned_events\{component_id="old",kind="buffer",path="[^"]+"\} 2$/m)
  t.match(text, /^sluice_orphaned_events\{component_id="old",kind="dead_letters",path="[^"]+"\} 1$/m)
  t.match(text, /^sluice_orphaned_age_seconds\{component_id="old",kind="buffer",path="[^"]+"\} \d/m)
  t.match(second.reported().problems, [
    { what: /^old .* a buffer with 2 events \(.*\) in .*buffer\/old$/, todo: /renamed_from: old/ },
    { what: /^old .* 1 rejected event /, todo: /sluice resend --config FILE --destination ID .*old\.ndjson/ },
  ])
  await second.stop()
  t.same(got, [])

  const taken = yaml(app, 'new: { *, renamed_from: old, buffer: { type: disk, max_bytes: 1GB } }')
  t.match(await check(taken), { code: 0, said: /^[^\n]*: ok [^\n]*\n0 errors, 0 warnings\n$/ })
  const third = await start(taken)
  await until(() => got.length === 2)
  t.same(third.reported().problems, [])
  await third.stop()
  t.same(got, ['one', 'two'])
  t.ok(existsSync(join(state, 'dead-letter/new.ndjson')))

  const fourth = await start(yaml(app, 'last: { * }', 'discard_orphans: [new]'))
  await until(() => !existsSync(join(state, 'dead-letter/new.ndjson')))
  await until(() => fourth.supervisor.orphans.length === 0)
  await until(() => logged.some(({ msg }) => /deleted orphaned data/.test(String(msg))))
  t.match(
    logged.findLast(({ msg }) => /deleted orphaned data/.test(String(msg))),
    { level: 40, component: 'new' },
  )
})

t.test('a configuration that would leave buffered events behind is refused where nobody would see that', async t => {
  const { yaml, start, state, append } = world(t)
  const app = 'app: { * }'
  const disk = 'buffer: { type: disk, max_bytes: 1GB }'
  const safely = { keepsEvents: true }
  const wrong = { code: 'SLUICE_EVENTS_LEFT_BEHIND', message: /buffer of old holds events.*"renamed_from: old"/ }
  const buffered = yaml(app, `old: { *, how: retries, ${disk} }`)
  const one = await start(buffered)
  const failing = () => one.supervisor.states()[0]?.state === 'failing'
  await until(() => existsSync(join(state, 'buffer/old')) && failing())
  const running = () => one.supervisor.config.destinations.map(({ id }) => id)
  await t.rejects(one.replace(yaml(app, 'new: { * }'), safely), wrong, 'another name')
  await t.rejects(one.replace(yaml(app, 'old: { * }'), safely), wrong, 'no disk buffer any more')
  await t.rejects(
    one.replace(yaml(app, 'new: { *, renamed_from: old }'), safely),
    wrong,
    'nor the one that replaces it',
  )
  t.same(running(), ['old'])
  t.same(one.supervisor.orphans, [])
  await one.replace(yaml(app, `new: { *, renamed_from: old, ${disk} }`), safely)
  await until(() => got.length === 2)
  t.same(got, ['one', 'two'])

  // One that delivers is given the time of a reload.
  await one.replace(yaml(app, 'last: { * }'), safely)
  await one.replace(yaml(app, `slow: { *, how: hangs, ${disk} }`), safely)
  append('three\n')
  await until(() => existsSync(join(state, 'buffer/slow/00000001.buf')) || one.supervisor.undelivered() > 0)
  await t.rejects(one.replace(yaml(app, 'last: { * }'), safely), { message: /buffer of slow holds events/ })
  t.same(running(), ['slow'], 'it runs again')
  append('four\n')
  await one.replace(yaml(app, 'last: { * }', 'discard_orphans: [slow]'), safely)
  append('five\n')
  await until(() => got.includes('five'))
  await until(() => !existsSync(join(state, 'buffer/slow')))

  // Not where that takes long: the sources would wait.
  await one.replace(yaml(app, `slow: { *, how: hangs, ${disk} }`), safely)
  append(`${'x'.repeat(1023)}\n`.repeat(17 * 1024))
  const slow = join(state, 'buffer/slow')
  const sizes = () => (existsSync(slow) ? readdirSync(slow) : []).map(name => statSync(join(slow, name)).size)
  await until(() => sizes().reduce((sum, size) => sum + size, 0) > 17 * 1024 * 1024)
  const { watched } = one.supervisor
  await t.rejects(one.replace(yaml(app, 'last: { * }'), safely), { message: /buffer of slow holds events/ })
  t.equal(one.supervisor.watched, watched, 'it is not even tried')
  await one.stop()

  const two = await start(yaml(app, `out: { *, ${disk} }`, 'discard_orphans: [slow]'))
  append('six\n')
  await until(() => got.includes('six'))
  await two.replace(yaml(app, 'other: { * }', 'discard_orphans: [slow]'), safely)
  t.same(two.supervisor.orphans, [], 'what is delivered is not left behind')
})

t.test('what a start with another configuration would lose sight of', async t => {
  const { yaml, start, read } = world(t)
  const log = pino({ level: 'silent' })
  const disk = 'buffer: { type: disk, max_bytes: 1GB }'
  const before = read(yaml('app: { * }', `old: { *, how: retries, ${disk} }`))
  const one = await start(yaml('app: { * }', `old: { *, how: retries, ${disk} }`))
  await until(() => one.supervisor.states()[0]?.state === 'failing')
  await one.stop()
  const objection = async (source: string, destination: string, than = before) =>
    (await objectionTo(read(yaml(source, destination)), than, log))?.message
  t.match(await objection('app: { * }', 'new: { * }'), /disk buffer of old holds events/)
  t.match(await objection('logs: { * }', `old: { *, ${disk} }`), /sources\.logs: would read .*renamed_from: app/)
  const renamed = ['logs: { *, renamed_from: app }', `new: { *, renamed_from: old, ${disk} }`] as const
  t.equal(await objection(...renamed), undefined)
  t.equal(await objection('app: { *, scan_interval: 3s }', `old: { *, ${disk} }`), undefined)
  const as = read(yaml('logs: { * }', 'new: { * }'))
  t.equal(await objection('logs: { * }', 'new: { *, how: refuses }', as), undefined, 'what was lost sight of before')
})

t.test('data is orphaned unless a component uses it, and left behind unless it is taken over or discarded', async t => {
  const dataDir = testFolder(t, {
    checkpoints: { 'a.json': 'a', 'b.json.1': 'b', 'c.json': '', 'a.json.corrupt-1': 'x', stray: 'x' },
    throttle: { limit: { '1.buckets': 'abc' }, empty: {}, 'a file': 'x' },
    buffer: { broken: { ledger: 'x' }, 'a file': 'x' },
    'dead-letter': {
      'out.ndjson': '{}\n{}\n',
      'empty.ndjson': '',
      'out.ndjson.1': '{}\n',
      'out.ndjson.sending': {},
      'none.ndjson.sending': {},
    },
  })
  const log = pino({ enabled: false })
  const none = { dataDir, sources: [], processors: [], destinations: [], discardOrphans: [] }
  const seen = async (found: Promise<readonly Orphan[]>) =>
    (await found).map(({ kind, id, events, bytes }) => [kind, id, events, bytes])
  const all = [
    ['checkpoint', 'a', undefined, 1],
    ['checkpoint', 'b', undefined, 1],
    ['buckets', 'limit', undefined, 3],
    ['dead_letters', 'out', 2, 6],
  ]
  t.same(await seen(findOrphans(none, log)), all)
  const throttle = { id: 'limit', kind: 'processor', options: { persist: true }, definition: {} }
  const config = (processor: object) => ({ ...none, processors: [processor] }) as unknown as OrphanConfig
  t.same(await seen(findOrphans(config(throttle), log)), [...all.slice(0, 2), ...all.slice(3)])
  t.same(await seen(findOrphans(config({ ...throttle, options: {} }), log)), all)
  const renamed = config({ ...throttle, id: 'other', renamedFrom: 'limit' })
  t.same(await seen(findOrphans(renamed, log)), all, 'not taken over yet')
  t.same(await seen(leftBehind({ ...renamed, discardOrphans: ['a', 'out'] }, log)), all.slice(1, 2))
  await carryOver(dataDir, renamesOf(renamed), log)
  t.same(await discardOrphans(await findOrphans(renamed, log), { discardOrphans: ['a', 'b', 'out'] }, log), [])
  t.same(readdirSync(join(dataDir, 'throttle')).sort(), ['a file', 'empty', 'other'])
  t.same(readdirSync(join(dataDir, 'checkpoints')).sort(), ['a.json.corrupt-1', 'c.json', 'stray'])
  t.same(readdirSync(join(dataDir, 'dead-letter')).sort(), ['empty.ndjson', 'none.ndjson.sending', 'out.ndjson.1'])
})

t.test('what an interrupted resend left is orphaned and renamed with its dead letters', async t => {
  const sending = { 'records.ndjson': '{}\n{}\n', 'dead-letter': { 'old.ndjson': '{}\n' }, spool: { old: { x: '' } } }
  const dataDir = testFolder(t, { 'dead-letter': { 'old.ndjson.sending': sending, 'own.ndjson': '{}\n' } })
  const log = pino({ enabled: false })
  const orphans = () =>
    findOrphans({ dataDir, sources: [], processors: [], destinations: [], discardOrphans: [] }, log, ['dead_letters'])
  t.match(await orphans(), [
    { id: 'old', events: 3, bytes: 9 },
    { id: 'own', events: 1 },
  ])
  const folder = (id: string) => join(dataDir, `dead-letter/${id}.ndjson.sending`)
  const rename = () => carryOver(dataDir, [{ kind: 'dead_letters', from: 'old', to: 'own' }], log)
  const lock = await lockDataDir(folder('old'))
  await rename()
  t.ok(existsSync(folder('old')), 'it is being sent')
  lock.release()
  await rename()
  t.match(await orphans(), [{ id: 'own', events: 4 }])
  t.same(readdirSync(join(folder('own'), 'spool')), ['own'])
  ;(await lockDataDir(folder('own'))).release()
})

t.test('what the new name has is never replaced, and a crash in between costs nothing', async t => {
  const dataDir = testFolder(t, {
    checkpoints: {
      'old.json': 'old',
      'old.json.1': 'before',
      'own.json': 'own',
      'b.json': 'b',
      'a.json.1': 'a before',
    },
    'dead-letter': { 'old.ndjson': 'old', 'own.ndjson': 'own', 'b.ndjson': 'b' },
    buffer: { old: { '0000000000000001.segment.unreadable': 'x' }, own: { 'x.unreadable': 'y' } },
  })
  linkSync(join(dataDir, 'dead-letter/b.ndjson'), join(dataDir, 'dead-letter/a.ndjson'))
  const log = pino({ enabled: false })
  const content = (path: string) => (existsSync(join(dataDir, path)) ? readFileSync(join(dataDir, path), 'utf8') : '')
  const both = (from: string, to: string) =>
    (['checkpoint', 'buffer', 'dead_letters'] as const).map(kind => ({ kind, from, to }))
  await carryOver(dataDir, both('old', 'own'), log)
  t.same(['checkpoints/own.json', 'checkpoints/old.json', 'checkpoints/old.json.1'].map(content), [
    'own',
    'old',
    'before',
  ])
  t.same(['dead-letter/own.ndjson', 'dead-letter/old.ndjson'].map(content), ['own', 'old'])
  t.same(readdirSync(join(dataDir, 'buffer')).sort(), ['old', 'own'])
  // As a crash leaves it: the first of two files renamed, a link made and the old name still there.
  await carryOver(dataDir, both('b', 'a'), log)
  t.same(['checkpoints/a.json', 'checkpoints/a.json.1', 'checkpoints/b.json'].map(content), ['b', 'a before', ''])
  t.same(['dead-letter/a.ndjson', 'dead-letter/b.ndjson'].map(content), ['b', ''])
  mkdirSync(join(dataDir, 'buffer/delivered'))
  await carryOver(dataDir, both('old', 'delivered'), log)
  t.same(readdirSync(join(dataDir, 'buffer')).sort(), ['delivered', 'own'], 'an empty buffer is replaced')
  t.equal(content('buffer/delivered/0000000000000001.segment.unreadable'), 'x')
})

t.test('a buffer that cannot be read now is not replaced', async t => {
  const segment = '0000000000000001.segment'
  const folder = testFolder(t, { buffer: { old: {}, own: { [segment]: `sluice buffer 1\n${'x'.repeat(100)}` } } })
  const handle = await open(folder)
  const handles = Object.getPrototypeOf(handle) as FileHandle
  await handle.close()
  const read = handles.read as (into: Buffer, at: number, length: number, from: number) => Promise<unknown>
  t.teardown(() => Object.assign(handles, { read }))
  Object.assign(handles, {
    read(this: FileHandle, ...where: Parameters<typeof read>) {
      if (Number(where[2]) > 1000) throw Object.assign(new Error('EIO'), { code: 'EIO' })
      return read.apply(this, where)
    },
  })
  await carryOver(folder, [{ kind: 'buffer', from: 'old', to: 'own' }], pino({ enabled: false }))
  t.same(readdirSync(join(folder, 'buffer/own')), [segment])
})

t.test('old ids that are those of somebody are refused', async t => {
  const { yaml, read } = world(t)
  const cases: [source: string, destination: string, more: string, problem: string][] = casesOf(
    import.meta.url,
    'wrong',
  )
  for (const [source, destination, more, problem] of cases)
    t.throws(() => read(yaml(source, destination, more)), { message: new RegExp(problem) })
  t.doesNotThrow(
    () => read(yaml('app: { * }', 'out: { * }', 'discard_orphans: [out]')),
    'it may have lost its disk buffer',
  )
})

t.test('a spool takes the place of one without objects; damaged ones stay', async t => {
  const files = {
    spool: { old: { 'a.object': 'old' }, sent: { 'b.closed.sent': '' }, own: { 'c.object.damaged': '' } },
  }
  const folder = testFolder(t, files)
  const log = pino({ enabled: false })
  await carryOver(folder, [{ kind: 'spool', from: 'old', to: 'own' }], log)
  t.same(readdirSync(join(folder, 'spool/own')), ['c.object.damaged'])
  await carryOver(folder, [{ kind: 'spool', from: 'old', to: 'sent' }], log)
  t.same(readdirSync(join(folder, 'spool/sent')), ['a.object'])
})
