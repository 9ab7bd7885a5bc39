import { PassThrough, type Readable } from 'node:stream'
import { loadCodecs } from '../../core/codec.js'
import type { AnyDefinition, SourceContext } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Fields } from '../../core/event/event-fields.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { nextTurn, systemClock } from '../../lib/time.js'
import { ComponentCounters } from '../flow/counters.js'
import { type Findings, findingsOf, until } from './findings.js'
import { hostilePeers } from './hostile-peers.js'
import { type Logged, recordingLog } from './recording-log.js'
import { MemoryCheckpoints, Taker } from './taker.js'

type SourceDefinition = AnyDefinition<'source'>

/** The input of a source, and how to write to it. Each check opens its own input. */
export interface SourceInput {
  readonly options: object
  readonly stdin?: Readable
  /** Whether `write` resolves with the status that the source answers. */
  readonly answers?: true
  /** Writes lines at once. `port`: where the source listens, if it logs `listening` with its `address`. */
  write(lines: readonly string[], port: number): unknown
  /** Returns the line from which an event was made. Default: its `.message`. */
  lineOf?(event: Fields): unknown
  close?(): void
}

type Open = () => SourceInput | Promise<SourceInput>
type Check = (opened: OpenedSource, found: Findings) => Promise<void>

const CHECKS: Readonly<Record<string, Check>> = {
  'stopping works without a start, and twice': stops,
  'every line is sent once, in order, while there is room': keepsOrder,
  'stopping while the output is full neither loses nor repeats events': endsInTheMiddle,
  'returned events are read again, or their sender gets an error': givesBack,
  'peers that are silent, slow or send nonsense harm nobody, and the end closes their connections': servesOthers,
}

/**
 * Checks that a source keeps its contract: order, back-pressure, acknowledgements, an abrupt end, and events given
 * back. `open` creates an empty input. Resolves with the violations; empty if there are none.
 */
export async function checkSource(definition: SourceDefinition, open: Open): Promise<string[]> {
  const all: string[] = []
  for (const [name, check] of Object.entries(CHECKS)) {
    const title = `${definition.type}: ${name}`
    const opened = new OpenedSource(definition, await open())
    all.push(...(await findingsOf(title, found => check(opened, found))))
    all.push(...(await findingsOf(title, () => opened.close())))
  }
  return all
}

/** A slow output. Each `send` takes some turns of the event loop. `most`: the maximum number of concurrent calls. */
class Slow extends Taker {
  /** The lines. They are read when a batch arrives, because its bytes are only valid until it is settled. */
  readonly received: unknown[] = []
  most = 0
  #sending = 0
  readonly #lineOf: (event: Fields) => unknown

  constructor(lineOf: (event: Fields) => unknown, settlesAs?: 'delivered') {
    super(settlesAs)
    this.#lineOf = lineOf
  }

  override async send(batch: EventBatch): Promise<void> {
    this.most = Math.max(this.most, ++this.#sending)
    for (let i = 0; i < batch.length; i++) this.received.push(this.#lineOf(batch.fields(i)))
    const room = super.send(batch)
    for (let turns = 0; turns < 5; turns++) await nextTurn()
    await room
    this.#sending--
  }
}

/** A source with its input. It can run any number of times. */
export class OpenedSource {
  readonly input: SourceInput
  readonly #definition: SourceDefinition
  readonly #ends: (() => Promise<void>)[] = []

  constructor(definition: SourceDefinition, input: SourceInput) {
    this.#definition = definition
    this.input = input
  }

  slow(settlesAs?: 'delivered'): Slow {
    return new Slow(this.input.lineOf ?? (({ message }) => message), settlesAs)
  }

  async create(checkpoints = new MemoryCheckpoints()) {
    const counters = new ComponentCounters('in', 'source', this.#definition.type)
    const logged: Logged[] = []
    const wanted = new WantedNames()
    const context: SourceContext = {
      id: 'in',
      log: recordingLog(logged),
      clock: systemClock,
      metrics: counters,
      checkpoints,
      field: path => new FieldReader(path, wanted),
      origin: (codec, path) => ({ source: 'in', host: 'here', codec, wanted, ...(path !== undefined && { path }) }),
      stdin: this.input.stdin ?? new PassThrough().end(),
    }
    const options = this.#definition.options.parse(this.input.options) as never
    loadCodecs(options, undefined)
    const source = await this.#definition.create(options, context)
    return { source, counters, logged }
  }

  async begin(out: Taker, checkpoints?: MemoryCheckpoints) {
    const { source, counters, logged } = await this.create(checkpoints)
    const controller = new AbortController()
    let hasFailed = false
    const begin = async () => {
      await source.start?.(controller.signal)
      const run = source.run(out, controller.signal)
      hasFailed = false
      run.catch(() => void (hasFailed = true))
      return { run }
    }
    const first = await begin()
    let last = first
    /** Runs the source again after it failed, as the engine does. */
    const again = async () => void (last = await begin())
    const end = async () => {
      controller.abort()
      out.settlesAs ??= 'delivered'
      out.unblock()
      out.settle('delivered')
      await last.run.catch(() => {})
      await source.stop?.(AbortSignal.timeout(100))
      await source.stop?.(AbortSignal.timeout(100))
    }
    this.#ends.push(end)
    let port = 0
    if (listens(this.input)) {
      const address = () => logged.find(({ text }) => text === 'listening')?.fields.address
      await until(() => hasFailed || address() !== undefined, 'it logs "listening" with its address')
      port = Number(/:(\d+)$/.exec(String(address()))?.[1])
    }
    const write = (lines: readonly string[]) => this.input.write(lines, port)
    return {
      source,
      port,
      counters,
      logged,
      run: first.run,
      hasFailed: () => hasFailed,
      again,
      abort: () => controller.abort(),
      end,
      write,
    }
  }

  async close(): Promise<void> {
    for (const end of this.#ends) await end()
    this.input.close?.()
  }
}

const listens = ({ options }: SourceInput): boolean => JSON.stringify(options).includes('"listen"')

const numbered = (from: number, to: number, rest = '') =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}${rest}`)

async function stops(opened: OpenedSource, found: Findings): Promise<void> {
  const { source, logged } = await opened.create()
  await source.stop?.(AbortSignal.abort())
  await source.stop?.(AbortSignal.abort())
  found.same(
    logged.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
    'errors in the log',
  )
}

async function keepsOrder(opened: OpenedSource, found: Findings): Promise<void> {
  const out = opened.slow('delivered')
  const { write, end } = await opened.begin(out)
  const lines = numbered(0, 6000, ` ${'x'.repeat(100)}`)
  lines[500] = `${'é'.repeat(100_000)} "\\`
  lines[501] = ' '
  let written = 0
  for (const count of [1, 2, 997, 5000]) {
    const portion = lines.slice(written, (written += count))
    await Promise.all([write(portion), until(() => out.events >= written, `${written} lines arrive`)])
  }
  found.same(out.received, lines, 'the lines')
  found.same(out.most, 1, 'batches sent at once')
  await end()
  found.same(out.events, lines.length, 'events, after the end')
}

async function endsInTheMiddle(opened: OpenedSource, found: Findings): Promise<void> {
  const out = opened.slow()
  out.block()
  const { write, run, abort, end } = await opened.begin(out)
  const lines = numbered(0, 5000, ` ${'y'.repeat(100)}`)
  const answer = write(lines)
  await until(() => out.batches.length > 0, 'a batch arrives')
  abort()
  out.settlesAs = 'delivered'
  out.unblock()
  out.settle('delivered')
  await run
  await answer
  const sent = [...out.received]
  found.same(sent, lines.slice(0, sent.length), 'the lines')
  await end()
  found.same(out.events, sent.length, 'events, after the end')
}

async function givesBack(opened: OpenedSource, found: Findings): Promise<void> {
  const out = opened.slow()
  const checkpoints = new MemoryCheckpoints()
  const { source, counters, write, run, end, ...more } = await opened.begin(out, checkpoints)
  const answers: unknown[] = []
  for (let n = 0; n < 3; n++) {
    answers.push(write(numbered(n, n + 1)))
    await until(() => out.batches.length === n + 1, 'a batch for each portion')
  }
  const [first, second, third] = out.unsettled.splice(0)
  third!.settle('delivered')
  first!.settle('delivered')
  second!.settle('errored')
  if (opened.input.answers) {
    const statuses = (await Promise.all(answers)) as number[]
    found.ok(statuses[0]! < 300 && statuses[1]! >= 500 && statuses[2]! < 300, `it answers ${statuses}`)
  } else if (source.once) {
    await end()
    found.same(counters.failures.get('undelivered'), 1, 'failures of the kind "undelivered"')
  } else if (source.redelivers) {
    await until(() => more.hasFailed() || out.events === 4, 'returned events are read again')
    if (more.hasFailed()) await more.again()
    await until(() => out.events === 4, 'returned events are read again, in the next run')
    await end()
    found.same(out.received.splice(3), ['line 1'], 'events that were read again')
    await readsOn(opened, ['line 3'], found)
  } else {
    const failure = await run.then(
      () => 'nothing',
      () => undefined,
    )
    found.same(failure, undefined, 'rejection of `run` after an event was returned')
    await checkpoints.flush()
    await end()
    await readsAgain(opened, checkpoints, found)
  }
  found.same(out.received, ['line 0', 'line 1', 'line 2'], 'the lines')
}

async function servesOthers(opened: OpenedSource, found: Findings): Promise<void> {
  if (!listens(opened.input)) return
  const out = opened.slow('delivered')
  const { port, write, end } = await opened.begin(out)
  const lines = numbered(0, 300)
  const isOne = (line: unknown) => lines.includes(String(line))
  const peers = hostilePeers(port)
  try {
    for (let n = 0; n < lines.length; n += 100) {
      const all = [write(lines.slice(n, n + 100)), until(() => out.received.filter(isOne).length >= n + 100, 'lines')]
      await Promise.all(all)
    }
    found.same(out.received.filter(isOne), lines, 'the lines')
    await end()
    // A peer that does not read does not notice that its connection was closed.
    for (const peer of peers) peer.resume()
    await until(() => peers.every(({ closed }) => closed), 'the end closes the connections of all peers')
  } finally {
    for (const peer of peers) peer.destroy()
  }
}

async function readsAgain(opened: OpenedSource, checkpoints: MemoryCheckpoints, found: Findings): Promise<void> {
  const next = opened.slow('delivered')
  const again = await opened.begin(next, checkpoints)
  await until(() => next.events === 2, 'returned events are read again, and the events after them')
  found.same(next.received, ['line 1', 'line 2'], 'lines of the next run')
  again.write(numbered(3, 4))
  await until(() => next.events === 3, 'another line is read')
  await again.end()
  await checkpoints.flush()
  await readsOn(opened, ['line 4'], found, checkpoints)
}

/** Checks that after a restart, the source sends only the lines that were written after the restart. */
async function readsOn(
  opened: OpenedSource,
  lines: readonly string[],
  found: Findings,
  checkpoints = new MemoryCheckpoints(),
): Promise<void> {
  const last = opened.slow('delivered')
  const rest = await opened.begin(last, checkpoints)
  rest.write(lines)
  await until(() => last.events > 0, 'another line is read')
  found.same(last.received, lines, 'lines after a restart')
}
