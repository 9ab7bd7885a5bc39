import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { crc32 } from 'node:zlib'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { filter } from '../../../../src/components/processors/filter.js'
import { encodeLines, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf } from '../../../../src/core/codecs/list.js'
import {
  type AnyDefinition,
  defineDestination,
  defineProcessor,
  defineSource,
  type Output,
} from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { Ack, type AckStatus } from '../../../../src/core/event/ack.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import { LOCAL_DEFAULTS } from '../../../../src/core/options/delivery-options.js'
import { discard, FAILED } from '../../../../src/core/processor.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { LettersProgress, lettersSource, surveyLetters } from '../../../../src/engine/run/dead-letter/letters.js'
import { DeadLetterFile, openDeadLetters } from '../../../../src/engine/run/dead-letter/queue.js'
import { decodeLetter, encodeLetters } from '../../../../src/engine/run/dead-letter/record.js'
import { isToSend, resendFile, surveyFile } from '../../../../src/engine/run/dead-letter/resend.js'
import { DeadLetterStock } from '../../../../src/engine/run/dead-letter/stock.js'
import { Engine, type Runtime } from '../../../../src/engine/run/engine.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { lockDataDir } from '../../../../src/engine/run/state/data-dir.js'
import { pathOf } from '../../../../src/engine/run/state/inventory.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { systemClock } from '../../../../src/lib/time.js'
import { batchOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { madeUp } from '../../../support/made-up.js'
import { parsedLines } from '../../../support/parsed-lines.js'
import { turns, until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const log = pino({ level: 'silent' })
const refused = new DeliveryError('422: no', { failure: 'reject', reason: 'status_422', status: 422, requestId: 'r-1' })

/** What the made-up destinations of a test do with an event; by default they take it. */
let judge: (n: number, id: string) => DeliveryError | undefined | Promise<void> = () => undefined
let taken: Record<string, unknown[]> = {}
const settled: AckStatus[] = []

const numbers = defineSource({
  type: 'numbers',
  summary: 'Events with numbers.',
  options: z.strictObject({ count: z.int() }),
  examples: [{ title: '', yaml: 'count: 1' }],
  create: ({ count }, context) => ({
    async run(out: Output) {
      for (let n = 0; n < count; n++) {
        const frame = new LineSplitter(1000).push(Buffer.from(`{"n":${n}}\n`))!
        const ack = out.ack(status => settled.push(status))
        await out.send(new EventBatch(frame, context.origin(JSON_OBJECTS), 0, ack))
      }
    },
  }),
})

const judging = defineDestination({
  type: 'judging',
  ...madeUp('Takes what the test wants.'),
  delivery: { ...LOCAL_DEFAULTS, max_events: 1 },
  create: (_, context) => ({
    async write(request) {
      const fields = request[0]!.fields(0)
      const answer = judge((fields.event as { n: number } | undefined)?.n ?? (fields.n as number), context.id)
      if (answer instanceof Error) throw answer
      await answer
      ;(taken[context.id] ??= []).push(fields)
    },
  }),
})

/** Fails on the first batch it sees. */
const failsOnce = defineProcessor({
  type: 'fails_once',
  ...madeUp('Wrong on purpose.'),
  create: () => {
    let failed = false
    return {
      process() {
        if (failed) return
        failed = true
        throw new Error('a bug')
      },
    }
  },
})

/** Cannot process events below a number. */
let least = 0
const picky = defineProcessor({
  type: 'picky',
  ...madeUp('Wrong on purpose.'),
  plan: () => ({ reasons: ['odd'] }),
  create: () => ({
    process(batch, to) {
      for (let i = 0; i < batch.length; i++) {
        const n = batch.fields(i).n as number
        if (n < least) to[i] = FAILED
        else if (n % 2) to[i] = discard(0)
      }
    },
  }),
})

const components: readonly AnyDefinition[] = [numbers, judging, failsOnce, picky, filter]

function newRuntime(): Runtime & { metrics: Metrics } {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough() }
  return { log, clock: systemClock, random: () => 0, metrics: new Metrics(log), ...streams }
}

function configOf(dataDir: string, rest: string, count = 10) {
  const text = `data_dir: ${JSON.stringify(dataDir)}\nmetrics: false\nsources: { in: { type: numbers, count: ${count} } }\n${rest}`
  return parseConfig(text, 'test.yaml', { env: {}, components })
}

async function run(config: ReturnType<typeof configOf>) {
  taken = {}
  settled.length = 0
  const runtime = newRuntime()
  const engine = await Engine.build(config, runtime)
  return { engine, metrics: runtime.metrics, running: engine.run() }
}

const sent = (id = 'out') => (taken[id] ?? []).map(fields => (fields as { n: number }).n)
/** The saved progress of a resend, whose first `done` bytes of records are settled. */
const progress = (done: number) => {
  const document = JSON.stringify({ done })
  return `${JSON.stringify({ sluice_checkpoint: 1, crc32: crc32(document) })}\n${document}\n`
}
const numbersIn = (path: string) =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .trimEnd()
        .split('\n')
        .filter(Boolean)
        .map(line => (JSON.parse(line) as { event: { n: number } }).event.n)
    : []

t.test('a letter gives the event back: what is sent is the same, with every encoding', async t => {
  const path = join(testFolder(t), 'letters.ndjson')
  const at = 1_700_000_000_123
  const changed = batchOf(['{"a":1}', 'text'])
  changed.modify(0, { a: 2, list: [null] })
  changed.modify(1, { message: 'changed', file: '/not/a/path' })
  const syslog = batchOf(
    [
      '<34>Oct 11 22:14:15 mymachine su: failed',
      '<165>1 2003-10-11T22:14:15.003Z h app - ID47 - hello',
      'no syslog',
      Buffer.from('<13>a: \xff', 'latin1'),
    ],
    { receivedAt: at },
  )
  Object.assign(syslog.origin, { codec: codecOf('syslog'), peer: '10.0.0.1' })
  const cases: [string, EventBatch][] = [
    ['objects', batchOf(['{"a":1.50,"b":12345678901234567890}', ' {"c": [] } ', '{"d":1}\r'], { path: '/x' })],
    ['no objects', batchOf(['nope', '[1]', '', '{"a"'], { path: '/var/log/x.log', receivedAt: at })],
    ['text', batchOf(['{"a":1}', 'a "b"\t\\', '', 'é'], { decode: 'text', receivedAt: at })],
    ['bytes', batchOf([Buffer.from('a\xff', 'latin1'), 'fine'], { decode: 'text', receivedAt: at })],
    ['bytes in an object', batchOf([Buffer.from('{"a":"\xff"}', 'latin1')], { receivedAt: at })],
    ['pieces', batchOf(['x'.repeat(100)], { decode: 'text', maxLineBytes: 40, receivedAt: at })],
    ['changed', changed],
    ['syslog', syslog],
    ...['logfmt', 'csv'].map((codec): [string, EventBatch] => {
      const own = 'partial=first raw=eA== file=/f peer=p host=h timestamp=never message=m'
      const line = codec === 'logfmt' ? own : own.replaceAll(/ ?[a-z]+=/g, ',').slice(1)
      const long = codec === 'logfmt' ? `partial=middle x=${'y'.repeat(100)}` : `last${',x'.repeat(50)}`
      const invalid = Buffer.from(line.replace(/m$/, '\xff'), 'latin1')
      const batch = batchOf([line, invalid, long, 'partial', line], { maxLineBytes: 90, receivedAt: at, path: '/x' })
      const columns = ['partial', 'raw', 'file', 'peer', 'host', 'timestamp', 'message']
      Object.assign(batch.origin, { codec: codecOf(codec, codec === 'csv' ? { columns } : {}) })
      return [codec, batch]
    }),
  ]
  for (const [name, batch] of cases) {
    writeFileSync(path, encodeLetters([batch], refused, { destination: 'd', wall: at }))
    const batches: EventBatch[] = []
    const source = lettersSource(path, new LettersProgress(0))
    const checkpoints = { read: () => {}, provide: () => {}, changed: () => {} }
    const context = { id: 'letters', checkpoints, origin: () => ({ wanted: new WantedNames() }) }
    const { run } = (await source.create({}, context as never)) as {
      run: (out: Output, s: AbortSignal) => Promise<void>
    }
    const out = { ack: () => new Ack(() => {}), send: async (batch: EventBatch) => void batches.push(batch) }
    await run(out, new AbortController().signal)
    const text = (encoded: { parts: Buffer[] }) => Buffer.concat(encoded.parts).toString('latin1')
    t.equal(text(encodeLines(JSON_OBJECTS, batches)), text(encodeLines(JSON_OBJECTS, [batch])), `${name}: as JSON`)
    // An object is its JSON, whatever its line end was.
    const raw = text(new RawEncoder().encode([batch])).replaceAll(/(\})\r\n/g, '$1\n')
    t.equal(text(new RawEncoder().encode(batches)), raw, `${name}: raw`)
  }
})

t.test('letters in each of their forms are read', t => {
  const at = '"timestamp":"2023-11-14T22:13:20.000Z"'
  const letters: [string, string, string, string][] = [
    ['{"syslog":"<13>a: b"}', `{"message":"b","app":"a","host":"h",${at}}`, 'syslog', '<13>a: b'],
    ['{"syslog":"none"}', `{"message":"none","host":"h",${at}}`, 'syslog', 'none'],
    ['"raw"', `{"message":"\ufffd","raw":"/w=="}`, 'text', '\xff'],
    ['"raw"', `{"a":"\ufffd","raw":"eyJhIjoi/yJ9"}`, 'json', '{"a":"\xff"}'],
    ['"message"', `{"message":"one","host":"h",${at}}`, 'text', 'one'],
  ]
  for (const [line, event, codec, expected] of letters) {
    const record = Buffer.from(`{"reason":"r","line":${line},"event":${event}}\n`)
    const letter = decodeLetter(record, 0, record.length - 1)
    t.same([letter?.codec.name, letter?.line.toString('latin1')], [codec, expected], line)
  }
  for (const line of [
    '{"nothing":"x"}',
    '{"syslog":1}',
    '{"syslog":"x","options":{"a":1}}',
    '{}',
    '{"raw":"syslog"}',
  ]) {
    const record = Buffer.from(`{"reason":"r","line":${line},"event":{}}\n`)
    t.equal(decodeLetter(record, 0, record.length - 1), undefined, `no letter: ${line}`)
  }
  t.end()
})

t.test('two writers of the same destination, as after a reload, do not cut each other off', async t => {
  const dataDir = testFolder(t)
  const [old, next] = [0, 1].map(() => new DeadLetterFile({ dataDir, destination: 'd', log, clock: systemClock }))
  // Longer than what goes into one write of the operating system.
  const rest = 'x'.repeat(2_000_000)
  await Promise.all(Array.from({ length: 6 }, (_, n) => [old, next][n % 2]!.write([batchOf([{ n, rest }])], refused)))
  t.same(numbersIn(old!.path).sort(), [0, 1, 2, 3, 4, 5])
})

t.test('a file that is moved away while it is written to: every letter is somewhere', async t => {
  const dataDir = testFolder(t)
  const letters = new DeadLetterFile({ dataDir, destination: 'd', log, clock: systemClock })
  let over = false
  let moved = 0
  let written = 0
  const move = async () => {
    for (let before = -1; !over; before = written) {
      await until(() => over || written > before)
      // At different moments of the next write.
      await turns(moved % 7)
      if (!existsSync(letters.path)) continue
      renameSync(letters.path, join(dataDir, `moved-${moved++}`))
      // What was read then is all that is read of it.
      writeFileSync(join(dataDir, `read-${moved}`), readFileSync(join(dataDir, `moved-${moved - 1}`)))
    }
  }
  const moving = move()
  // On a fast disk as many more as the mover needs.
  for (; written < 60 || (moved < 4 && written < 6000); written++)
    await letters.write([batchOf([{ n: written }])], refused)
  over = true
  await moving
  const found = new Set(numbersIn(letters.path))
  for (const name of readdirSync(dataDir).filter(name => name.startsWith('read-'))) {
    const text = readFileSync(join(dataDir, name), 'utf8')
    for (const line of text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter(Boolean)) {
      found.add((JSON.parse(line) as { event: { n: number } }).event.n)
    }
  }
  t.ok(moved > 3, `moved ${moved} times`)
  t.equal(found.size, written)
})

t.test('ID.rejected: who reads it gets the letters, and the event is settled when they have them', async t => {
  const dataDir = testFolder(t)
  const yaml = `
processors: { few: { type: filter, inputs: [out.rejected], condition: if (.event.n less '8') } }
destinations:
  out: { type: judging, inputs: [in] }
  letters: { type: judging, inputs: [few, few.discarded] }
  also: { type: judging, inputs: [out.rejected] }
`
  const config = configOf(dataDir, yaml)
  let open = () => {}
  const gate = new Promise<void>(resolve => {
    open = resolve
  })
  judge = (n, id) => (id === 'out' ? (n % 2 ? refused : undefined) : gate)
  const { metrics, running } = await run(config)
  await until(() => metrics.components.get('letters')?.inFlight().events === 1)
  t.same(sent(), [0], 'one after the other')
  t.ok(metrics.checkConservation())
  t.same(settled, ['delivered'], 'the refused event is not settled')
  open()
  await running
  t.same(sent(), [0, 2, 4, 6, 8])
  t.same(settled.filter(status => status === 'rejected').length, 5)
  t.match(taken.letters, [
    { destination: 'out', reason: 'status_422', status: 422, request_id: 'r-1', error: '422: no', event: { n: 1 } },
  ])
  const events = (id: string) => taken[id]!.map(fields => (fields as { event: { n: number } }).event.n)
  t.same(events('letters'), [1, 3, 5, 7, 9], 'through a processor')
  t.same(events('also'), [1, 3, 5, 7, 9], 'and to each who reads them')
  t.notOk(existsSync(join(dataDir, 'dead-letter')), 'there is no file then')
  t.ok(metrics.checkConservation())
  t.equal(metrics.components.get('out')!.discards.get('status_422')?.events, 5)

  const once = configOf(
    dataDir,
    `
processors: { bad: { type: fails_once, inputs: [out.rejected] } }
destinations:
  out: { type: judging, inputs: [in], retry: { initial: 2ms, max: 2ms } }
  letters: { type: judging, inputs: [bad] }
`,
    2,
  )
  judge = (_, id) => (id === 'out' ? refused : undefined)
  await (await run(once)).running
  t.same(events('letters'), [0, 1], 'tried until it is taken')

  judge = (_, id) => (id === 'out' ? refused : new DeliveryError('away', { failure: 'retry', reason: 'refused' }))
  const stopped = await run(config)
  await until(() => stopped.metrics.components.get('letters')?.inFlight().events === 1)
  stopped.engine.stop(AbortSignal.timeout(20))
  await stopped.running
  t.notOk(settled.includes('rejected'), 'not settled when the time is over before')
  t.ok(stopped.metrics.checkConservation())
})

t.test('resend: a file that cannot be read is not a missing one', t => {
  const dir = testFolder(t)
  const loop = join(dir, 'loop')
  symlinkSync(loop, loop)
  t.throws(() => isToSend(join(loop, 'out.ndjson')), { code: 'SLUICE_RESEND', message: /cannot read .*ELOOP/ })
  t.end()
})

t.test('resend', async t => {
  /** Dead letters of these events, as a daemon leaves them. */
  const setUp = async (t: Test, count: number) => {
    const dataDir = testFolder(t)
    const config = configOf(
      dataDir,
      'destinations: { out: { type: judging, inputs: [in], retry: { initial: 2ms, max: 2ms }, hold_after_refusals: 0 } }',
      count,
    )
    judge = () => refused
    await (await run(config)).running
    taken = {}
    const path = pathOf(dataDir, 'dead_letters', 'out')
    let engine: Engine | undefined
    const context = {
      config,
      target: config.destinations[0]!,
      newRuntime,
      running: (now: Engine) => {
        engine = now
      },
      stopped: () => false,
    }
    return { dataDir, path, folder: `${path}.sending`, context, stop: () => engine!.stop(AbortSignal.timeout(30)) }
  }
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

  await t.test('all are taken: the file is gone', async t => {
    const { path, folder, context } = await setUp(t, 25)
    t.match(await surveyFile(path), { events: 25, reasons: new Map([['status_422', 25]]), wrongLine: undefined })
    judge = () => undefined
    t.same(await resendFile(path, context), { sent: 25, refused: new Map(), left: 0 })
    t.same(sent(), range(0, 25))
    t.notOk(existsSync(path) || existsSync(folder) || isToSend(path))
    t.same(await resendFile(path, context), { sent: 0, refused: new Map(), left: 0 }, 'nothing to send is fine')
    t.notOk(existsSync(folder))
  })

  await t.test('what is refused again is back in the file, in front of what came meanwhile', async t => {
    const { dataDir, path, folder, context } = await setUp(t, 10)
    const letters = new DeadLetterFile({ dataDir, destination: 'out', log, clock: systemClock })
    judge = async n => {
      if (n === 5) await letters.write([batchOf([{ n: 100 }]), batchOf([{ n: 101 }])], refused)
    }
    const other = judge
    judge = (n, id) => (n % 3 === 0 ? new DeliveryError('no', { failure: 'reject', reason: 'again' }) : other(n, id))
    t.same(await resendFile(path, context), { sent: 6, refused: new Map([['again', 4]]), left: 0 })
    t.same(numbersIn(path), [0, 3, 6, 9, 100, 101])
    t.notOk(existsSync(folder))
    t.match(
      (await surveyFile(path)).reasons,
      new Map([
        ['again', 4],
        ['status_422', 2],
      ]),
    )
    judge = () => undefined
    taken = {}
    await resendFile(path, context)
    t.same(sent(), [0, 3, 6, 9, 100, 101])
  })

  await t.test('what is refused again is as old as when it was refused first', async t => {
    const { path, context } = await setUp(t, 3)
    const timesIn = () => parsedLines<{ time: string; since?: string }>(readFileSync(path, 'utf8'))
    const first = timesIn().map(({ time }, i) => new Date(Date.parse(time) - 3_600_000 * (3 - i)).toISOString())
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    writeFileSync(path, lines.map((line, i) => `${line.replace(/"time":"[^"]+"/, `"time":"${first[i]}"`)}\n`).join(''))
    for (const refusals of [3, 2]) {
      judge = n => (n < refusals ? refused : undefined)
      t.match(await resendFile(path, context), { sent: refusals === 3 ? 0 : 1 })
      t.same(valuesOf(timesIn(), 'since'), first.slice(0, refusals), 'also of one that was refused twice before')
      t.ok(timesIn().every(({ time, since }) => time > since!))
    }
    const stock = new DeadLetterStock(path)
    await stock.refresh()
    t.equal(stock.oldest, Date.parse(first[0]!))
  })

  await t.test('ended in the middle: the next call sends the rest', async t => {
    const { path, folder, context, stop } = await setUp(t, 40)
    judge = n => {
      if (n === 12) stop()
      return n >= 12
        ? new DeliveryError('away', { failure: 'retry', reason: 'refused' })
        : n === 3
          ? refused
          : undefined
    }
    t.same(await resendFile(path, context), { sent: 11, refused: new Map([['status_422', 1]]), left: 28 })
    t.same(numbersIn(path), [3], 'what was refused is back at once')
    t.ok(existsSync(folder) && isToSend(path))
    t.equal((await surveyFile(path)).events, 29)
    judge = () => undefined
    taken = {}
    t.same(await resendFile(path, context), { sent: 29, refused: new Map(), left: 0 })
    t.same(sent(), [...range(12, 40), 3])
    t.notOk(existsSync(folder) || existsSync(path))
  })

  await t.test('what a processor could not process goes to it again, and to what is behind it', async t => {
    const dataDir = testFolder(t)
    const yaml = `processors: { pick: { type: picky, inputs: [in], on_error: dead_letter } }
destinations:
  out: { type: judging, inputs: [pick] }
  odd: { type: judging, inputs: [pick.discarded] }
  all: { type: judging, inputs: [in] }`
    const config = configOf(dataDir, yaml)
    judge = () => undefined
    least = 6
    const first = await run(config)
    await first.running
    const { discards, failures } = first.metrics.components.get('pick')!
    t.match(Object.fromEntries(discards), { processing_failed: { events: 6 }, odd: { events: 2 } })
    t.equal(failures.get('processing'), 6)
    t.ok(first.metrics.checkConservation())
    t.same(
      [sent('out'), sent('odd')],
      [
        [6, 8],
        [7, 9],
      ],
    )
    const path = pathOf(dataDir, 'dead_letters', 'pick')
    t.same(numbersIn(path), range(0, 6))
    const context = { config, target: config.processors[0]!, newRuntime, running: () => {}, stopped: () => false }
    taken = {}
    least = 3
    judge = n => (n === 4 ? refused : undefined)
    t.same(await resendFile(path, context), { sent: 3, refused: new Map([['processing_failed', 3]]), left: 0 })
    t.same(numbersIn(path), range(0, 3), 'what fails again is back')
    t.same(
      numbersIn(pathOf(dataDir, 'dead_letters', 'out')),
      [4],
      'what a destination behind it refuses is one of its own',
    )
    t.same([sent('out'), sent('odd'), sent('all')], [[], [3, 5], []])
    least = 0
    mkdirSync(`${path}.sending/dead-letter`, { recursive: true })
    copyFileSync(path, `${path}.sending/dead-letter/gone.ndjson`)
    t.match(await resendFile(path, context), { sent: 3, left: 0 })
    t.same(numbersIn(pathOf(dataDir, 'dead_letters', 'gone')), range(0, 3), 'of a destination that was renamed')
    t.notOk(existsSync(path) || existsSync(`${path}.sending`))
  })

  await t.test('what a crash left is taken up, at every step', async t => {
    const record = (n: number) => encodeLetters([batchOf([{ n }])], refused, { destination: 'out', wall: 0 }).toString()
    const torn = '{"time":"2023'
    const positions = 'checkpoints/dead_letters.json'
    const cases: [string, Record<string, string>, number[]][] = [
      ['nothing but the folder', {}, [7]],
      ['records', { 'records.ndjson': record(1) + record(2) }, [1, 2, 7]],
      [
        'some of them done',
        { 'records.ndjson': record(1) + record(2), [positions]: progress(record(1).length) },
        [2, 7],
      ],
      [
        'a damaged progress',
        { 'records.ndjson': record(1), [positions]: progress(record(1).length).slice(0, -2) },
        [1, 7],
      ],
      ['a progress of more than there is', { 'records.ndjson': record(1), [positions]: progress(99999) }, [1, 7]],
      ['the progress of records that are gone', { [positions]: progress(record(7).length) }, [7]],
      ['a torn record', { 'records.ndjson': record(1) + torn }, [1, 7]],
      ['refused ones', { 'dead-letter/out.ndjson': record(3) + torn }, [7]],
      ['in the middle of merging', { 'dead-letter/out.ndjson': record(3), 'merging.ndjson': record(4) + torn }, [7]],
      ['merging alone', { 'merging.ndjson': record(4) }, [7]],
    ]
    for (const [name, files, expected] of cases) {
      const { path, folder, context } = await setUp(t, 0)
      for (const [file, content] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, file)), { recursive: true })
        writeFileSync(join(folder, file), content)
      }
      mkdirSync(folder, { recursive: true })
      writeFileSync(path, record(7))
      judge = () => undefined
      await resendFile(path, context)
      t.same(sent(), expected, name)
      const back = Object.keys(files).flatMap(file =>
        /dead-letter|merging/.test(file) ? [Number(/"n":(\d)/.exec(files[file]!)![1])] : [],
      )
      t.same(numbersIn(path), back, `${name}: what was refused is back`)
      t.notOk(existsSync(folder), name)
    }
  })

  await t.test('what cannot be sent is left as it is', async t => {
    const { path, folder, context } = await setUp(t, 3)
    const before = readFileSync(path, 'utf8')
    const lock = await lockDataDir(folder)
    await t.rejects(resendFile(path, context), {
      code: 'SLUICE_RESEND',
      message: /is being sent by another sluice resend$/,
    })
    lock.release()
    for (const wrong of [
      'not json\n',
      '{"a":1}\n',
      '{"reason":"x","event":[1]}\n',
      '{"reason":"x","line":"raw","event":{}}\n',
    ]) {
      writeFileSync(path, before + wrong + before)
      t.equal((await surveyLetters(path)).wrongLine, 4)
      await t.rejects(resendFile(path, context), {
        message: `${path}:4: is not a rejected event; no event of this file was sent`,
      })
      t.equal(readFileSync(path, 'utf8'), before + wrong + before, wrong)
    }
    t.same(sent(), [])
    writeFileSync(path, `${before}\n\r\n`)
    appendFileSync(path, before.trimEnd())
    judge = () => undefined
    t.match(await resendFile(path, context), { sent: 6 }, 'empty lines, and a last one without its end, are fine')
    t.throws(() => statSync(path))
  })
})

t.test('the dead letters that lie there now, whoever changes them', async t => {
  const dataDir = testFolder(t)
  const path = pathOf(dataDir, 'dead_letters', 'up')
  const stock = new DeadLetterStock(path)
  const counted = async () => {
    await stock.refresh()
    return [stock.events, stock.oldest]
  }
  const letter = (second: number) => `{"time":"2026-11-21T14:03:1${second}.000Z","destination":"up"}\n`
  const time = (second: number) => Date.parse(`2026-11-21T14:03:1${second}.000Z`)
  t.equal(stock.events, undefined, 'nobody knows yet')
  t.same(await counted(), [0, undefined])
  mkdirSync(dirname(path))
  writeFileSync(path, letter(1) + letter(2))
  t.same(await counted(), [2, time(1)], 'of another process')
  appendFileSync(path, `${letter(3)}{"time":"torn`)
  t.same(await counted(), [3, time(1)], 'only complete ones')
  writeFileSync(path, letter(1) + letter(2) + letter(3) + letter(4))
  t.same(await counted(), [4, time(1)], 'the torn one was cut off')
  const folder = `${path}.sending`
  mkdirSync(folder)
  renameSync(path, join(folder, 'records.ndjson'))
  t.same(await counted(), [4, time(1)], 'being sent again')
  mkdirSync(join(folder, 'checkpoints'))
  writeFileSync(join(folder, 'checkpoints/dead_letters.json'), progress(letter(1).length))
  writeFileSync(path, letter(5))
  t.same(await counted(), [4, time(2)], 'one was accepted, and one is new')
  rmSync(folder, { recursive: true })
  rmSync(path)
  t.same(await counted(), [0, undefined])
})

t.test('a new file with the inode of a removed one is counted from its beginning, and its name is synced', async t => {
  const dataDir = testFolder(t)
  const queue = new DeadLetterFile({ dataDir, destination: 'up', log, clock: systemClock })
  const stock = new DeadLetterStock(queue.path)
  const handle = await open(dataDir)
  const handles = Object.getPrototypeOf(handle) as FileHandle
  await handle.close()
  const { sync } = handles
  t.teardown(() => Object.assign(handles, { sync }))
  let syncs = 0
  handles.sync = async function (this: FileHandle) {
    if ((await this.stat()).isDirectory()) syncs++
    await sync.call(this)
  }
  await queue.write([batchOf(['a', 'b'])], refused)
  await stock.refresh()
  t.equal(stock.events, 2)
  rmSync(queue.path)
  syncs = 0
  for (const text of ['a long one', 'b', 'c']) await queue.write([batchOf([text])], refused)
  await stock.refresh()
  t.equal(stock.events, 3)
  t.equal(syncs, 1)
})

t.test('the gauge says of any component that its letters cannot be written', async t => {
  const dataDir = testFolder(t, { 'dead-letter': 'in the way' })
  for (const kind of ['processor', 'destination'] as const) {
    const metrics = new ComponentCounters(kind, kind, 'fake')
    const log = pino({ level: 'silent' })
    const letters = openDeadLetters(kind, dataDir, { log, clock: systemClock, metrics, disk: undefined })
    const gauge = () => [...metrics.series.get('sluice_dead_letters_unwritable')![0]!.read()].map(({ value }) => value)
    t.same(gauge(), [0])
    const error = new DeliveryError('no', { failure: 'reject', reason: 'status_400' })
    await t.rejects(letters.write([batchOf(['one\n'])], error), { code: /EEXIST|ENOTDIR/ })
    t.same(gauge(), [1])
    rmSync(join(dataDir, 'dead-letter'))
    await letters.write([batchOf(['one\n'])], error)
    t.same(gauge(), [0])
    rmSync(join(dataDir, 'dead-letter'), { recursive: true })
    writeFileSync(join(dataDir, 'dead-letter'), 'in the way')
  }
})

t.test('what is read of a file of dead letters gives its memory back', async t => {
  const before = freeChunks()
  const path = join(testFolder(t), 'letters')
  const letter = '{"reason":"status_422","event":{"n":1}}\n'
  writeFileSync(path, `${letter.repeat(3)}${'x'.repeat(100_000)}`)
  t.equal((await surveyLetters(path)).events, 3)
  t.equal(freeChunks(), before)
})
