import { once } from 'node:events'
import { createWriteStream, fstatSync } from 'node:fs'
import { hostname } from 'node:os'
import { finished } from 'node:stream/promises'
import { deciderOptions } from '../components/processors/throttle/decider-options.js'
import type { ThrottleConfig } from '../components/processors/throttle/options.js'
import { BucketKey } from '../components/throttle/buckets/bucket-key.js'
import { MissingKey } from '../components/throttle/counts/missing-key.js'
import { createDecider } from '../components/throttle/create-decider.js'
import type { Decider } from '../components/throttle/decider.js'
import type { EventTimeOptions } from '../components/throttle/decider-options.js'
import { DISCARD, EXCLUDED, FULL, PASS, TOO_LATE } from '../components/throttle/decisions.js'
import { AutoTime } from '../components/throttle/event/auto-time.js'
import { latestTime } from '../components/throttle/event/time.js'
import { RawEncoder } from '../core/codecs/encode.js'
import { JSON_OBJECTS } from '../core/codecs/json.js'
import { Ack } from '../core/event/ack.js'
import { EventBatch } from '../core/event/batch.js'
import { type FieldPath, fieldPathText } from '../core/event/field-path.js'
import { FieldReader } from '../core/event/field-reader.js'
import type { Origin } from '../core/event/origin.js'
import type { Io } from '../daemon/process/command-line.js'
import { EXIT } from '../daemon/process/dispatch.js'
import { WantedNames } from '../lib/formats/json-scan.js'
import { type Frame, LineSplitter } from '../lib/lines/line-splitter.js'
import { printableText } from '../lib/printable.js'
import { systemClock } from '../lib/time.js'
import { KeyIds } from './key-ids.js'
import { TimeSlots } from './slots.js'
import { keyTable } from './summary.js'
import { TrialTally } from './tally.js'
import { type ThrottleFlags, throttleOfFlags } from './throttle-flags.js'
import { count, keyText, percent } from './words.js'

export interface ThrottleCallOptions extends ThrottleFlags {
  readonly discarded: string | undefined
  readonly quiet: boolean
}

/** Lines are held in memory. A line longer than this counts as several events. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** Maximum keys to count. SHOWN_KEYS: in the summary. */
const MOST_KEYS = 250_000
const SHOWN_KEYS = 20
/** No slot, because this command does not count events over time. */
const NO_SLOT = -1

/** Throttles standard input to standard output, and prints a summary to standard error. Resolves with the exit code. */
export async function throttleLines(given: ThrottleCallOptions, io: Io): Promise<number> {
  const isFile = (given.time ?? 'auto') === 'auto' && isRegularFile(io.stdin)
  const pipe = new ThrottlePipe(throttleOfFlags(isFile ? { ...given, time: undefined } : given, 'throttle'), isFile)
  const rest = given.discarded === undefined ? undefined : createWriteStream(given.discarded, { mode: 0o600 })
  const splitter = new LineSplitter(MAX_LINE_BYTES)
  const take = async (frame: Frame | undefined) => {
    if (!frame) return
    const { passed, discarded, warning } = pipe.decide(frame, rest !== undefined)
    if (warning !== undefined) io.stderr.write(`sluice: ${printableText(warning)}\n`)
    await write(io.stdout, passed)
    if (rest) await write(rest, discarded)
  }
  // Ctrl-C only ends the input. Lines that were already read are written, and the summary is printed.
  const stop = () => io.stdin.destroy()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  const failed = new Promise<never>((_resolve, reject) => rest?.once('error', reject))
  if (rest) await Promise.race([failed, once(rest, 'open')])
  const taken = readAll(io.stdin, chunk => take(splitter.push(chunk))).then(() => take(splitter.flush()))
  await Promise.race([failed, taken])
  // The callback of end() is also called if a write failed.
  if (rest) await finished(rest.end())
  const { columns, isTTY } = io.stderr
  if (!given.quiet) io.stderr.write(pipe.summary({ columns, colour: Boolean(isTTY) && !io.env.NO_COLOR }))
  return pipe.isKeyMissing ? EXIT.failed : EXIT.done
}

function isRegularFile(stdin: NodeJS.ReadStream): boolean {
  const { fd } = stdin as { readonly fd?: number | null }
  return typeof fd === 'number' && fstatSync(fd).isFile()
}

/** Resolves when `stream` ends or is destroyed. Processes each chunk before it reads the next chunk. */
async function readAll(stream: NodeJS.ReadStream, take: (chunk: Buffer) => Promise<void>): Promise<void> {
  try {
    for await (const chunk of stream) await take(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  }
}

/** Resolves when the stream has room for more. */
async function write(stream: NodeJS.WritableStream, parts: readonly Buffer[]): Promise<void> {
  let room = true
  for (const part of parts) room = stream.write(part)
  if (!room) await new Promise(resolve => stream.once('drain', resolve))
}

interface Decided {
  readonly passed: Buffer[]
  readonly discarded: Buffer[]
  /** A problem with the options, in words. Each problem is reported only once. */
  readonly warning: string | undefined
}

/** Decides on lines as they arrive, and counts the outcomes by key. */
class ThrottlePipe {
  readonly #decider: Decider
  /**
   * For a file, whose lines were written before they are read. As in `simulate`, an event counts at its own time, or
   * else at the time of the previous event. Until a time is found, the clock counts.
   */
  readonly #ownTime: AutoTime | undefined
  /** With --time: by its own time, an event counts as in a daemon. */
  readonly #eventTime: EventTimeOptions | undefined
  #lastTime: number | undefined
  #timeless = 0
  readonly #origin: Origin
  readonly #key: BucketKey
  readonly #keyText: string
  readonly #missingKey: MissingKey
  readonly #ids: KeyIds
  readonly #keys: TrialTally
  readonly #passed = new RawEncoder()
  readonly #discarded = new RawEncoder()

  /** `isFile`: whether each event counts at its own time. */
  constructor(options: ThrottleConfig, isFile: boolean) {
    const wanted = new WantedNames()
    const context = { field: (path: FieldPath) => new FieldReader(path, wanted) }
    const compiled = deciderOptions(options, context)
    // The times of events are those of a wall clock.
    this.#decider = createDecider(compiled, isFile ? { now: () => 0, wall: () => 0 } : systemClock)
    if (isFile) this.#ownTime = new AutoTime(context)
    this.#eventTime = compiled.eventTime
    this.#key = new BucketKey(compiled.keyFields)
    this.#keyText = keyText(options.key_field) ?? ''
    this.#missingKey = new MissingKey(compiled.keyFields)
    this.#origin = { source: 'stdin', host: hostname(), codec: JSON_OBJECTS, wanted }
    this.#ids = new KeyIds(this.#key, MOST_KEYS)
    const { windowMs, mode } = compiled.limits[0]!
    const aligned = mode === 'aligned'
    const slots = new TimeSlots()
    this.#keys = new TrialTally({ ids: this.#ids, slots, windowMs, aligned, trials: 1 })
  }

  /** Decides on the lines of a frame, and returns the bytes to write. `discarded` is empty unless `wantsDiscarded`. */
  decide(frame: Frame, wantsDiscarded: boolean): Decided {
    const batch = new EventBatch(frame, this.#origin, systemClock.wall(), new Ack(() => {}))
    const time = this.#ownTime
    const counted = this.#eventTime
    const decisions = time ? new Uint8Array(batch.length) : this.#decider.decide(batch).decisions
    let now = this.#lastTime ?? systemClock.now()
    for (let i = 0; i < batch.length; i++) {
      if (time) {
        const own = time.of(batch, i)
        if (Number.isNaN(own)) this.#timeless++
        else this.#lastTime = now = own
        this.#decider.limiter.advance(now)
        decisions[i] = this.#decider.decideOne(batch, i, now)
      }
      if (counted) {
        const own = counted.time.of(batch, i)
        now = own <= latestTime(batch.receivedAt, counted.latenessMs) ? own : batch.receivedAt
      }
      const id = this.#ids.id(batch, i)
      const decision = decisions[i]!
      const outcome = decision === EXCLUDED ? EXCLUDED : isDiscarded(decision) ? DISCARD : PASS
      this.#keys.add(id, outcome, batch.size(i), now, NO_SLOT)
    }
    const warning = this.#missingKey.see(batch, decisions) ? this.#keyWarning(batch) : undefined
    const rest = wantsDiscarded ? batch.pick(i => isDiscarded(decisions[i]!)) : undefined
    batch.retain(i => !isDiscarded(decisions[i]!))
    return {
      passed: this.#passed.encode([batch]).parts,
      discarded: rest ? this.#discarded.encode([rest]).parts : [],
      warning,
    }
  }

  /** Whether events were counted, but no event had the key. */
  get isKeyMissing(): boolean {
    return this.#missingKey.events > 0
  }

  /** A warning if events of a file have no time. */
  get #timeWarning(): string[] {
    if (this.#timeless === 0) return []
    const all = 'no event has a time, so all count when they are read: name the field with --time'
    const some = `${count(this.#timeless, 'event')} without a time: each counts at the time of the previous event`
    return [`sluice: ${this.#lastTime === undefined ? all : some}`]
  }

  #keyWarning(batch: EventBatch): string {
    const lines = count(batch.length, 'line')
    const fields = Object.keys(batch.fields(0)).map(fieldPathText).join(', ')
    return `not one of the first ${lines} has the key ${this.#keyText}, so all share one bucket: correct --key; the first line has the fields ${fields}`
  }

  summary(style: { readonly columns: number | undefined; readonly colour: boolean }): string {
    const { passed, discarded, excluded } = this.#keys.totals
    const events = passed + discarded + excluded
    const width = events.toLocaleString('en-US').length
    const row = (name: string, part: number) =>
      `  ${name.padEnd(9)}  ${part.toLocaleString('en-US').padStart(width)}  ${percent(part, events).padStart(7)}`
    const keys = { ...this.#keys.byKey(SHOWN_KEYS), more_keys: this.#ids.overflowed }
    const lines = [
      ...this.#timeWarning,
      `sluice throttle: ${count(events, 'event')}`,
      row('passed', passed),
      row('discarded', discarded),
      ...(excluded > 0 ? [row('excluded', excluded)] : []),
      ...(events > 0 && this.#key.hasFields ? ['', ...keyTable(keys, style)] : []),
    ]
    return lines.map(line => `${line}\n`).join('')
  }
}

function isDiscarded(decision: number): boolean {
  return decision === DISCARD || decision === FULL || decision === TOO_LATE
}
