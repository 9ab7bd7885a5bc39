import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { hostname } from 'node:os'
import { finished } from 'node:stream/promises'
import { RawEncoder } from '../codecs/encode.js'
import { JSON_OBJECTS } from '../codecs/json.js'
import { Ack } from '../core/event/ack.js'
import { EventBatch } from '../core/event/batch.js'
import { FieldReader } from '../core/event/field-reader.js'
import type { Origin } from '../core/event/origin.js'
import { WantedNames } from '../lib/formats/json-scan.js'
import { type Frame, LineSplitter } from '../lib/lines/line-splitter.js'
import { systemClock } from '../lib/time.js'
import { deciderOptions, type ThrottleOptions } from '../processors/throttle/options.js'
import type { Io } from '../terminal/command-line.js'
import { EXIT } from '../terminal/dispatch.js'
import { BucketKey } from '../throttle/bucket-key.js'
import { DISCARD, EXCLUDED as EXEMPT, FULL, TOO_LATE } from '../throttle/decider.js'
import { createDecider } from '../throttle/live-decider.js'
import { count, keyTable, percent } from './simulate/summary.js'
import { DISCARDED, EXCLUDED, KeyTally, type Outcome, PASSED } from './simulate/tally.js'
import { type ThrottleFlags, throttleOfFlags } from './throttle-flags.js'

export interface ThrottleCallOptions extends ThrottleFlags {
  /** File for discarded events. */
  readonly discarded: string | undefined
  readonly quiet: boolean
}

/** A longer line counts as several events, since a line is held in memory. */
const MAX_LINE_BYTES = 64 * 1024 * 1024

/** Throttles standard input to standard output, and prints a summary to standard error. Resolves with the exit code. */
export async function throttle(given: ThrottleCallOptions, io: Io): Promise<number> {
  const pipe = new ThrottlePipe(throttleOfFlags(given, 'throttle', io))
  const rest = given.discarded === undefined ? undefined : createWriteStream(given.discarded, { mode: 0o600 })
  const splitter = new LineSplitter(MAX_LINE_BYTES)
  const take = async (frame: Frame | undefined) => {
    if (!frame) return
    const { passed, discarded } = pipe.decide(frame, rest !== undefined)
    await write(io.stdout, passed)
    if (rest) await write(rest, discarded)
  }
  // On Ctrl-C, lines that were read are still written, and the summary is printed.
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
  return EXIT.done
}

/** Resolves at the end of `stream`, or when it is destroyed. Each chunk is processed before the next is read. */
async function readAll(stream: NodeJS.ReadStream, take: (chunk: Buffer) => Promise<void>): Promise<void> {
  try {
    for await (const chunk of stream) await take(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
  }
}

/** Resolves when there is room for more. */
async function write(stream: NodeJS.WritableStream, parts: readonly Buffer[]): Promise<void> {
  let room = true
  for (const part of parts) room = stream.write(part)
  if (!room) await new Promise(resolve => stream.once('drain', resolve))
}

/** Decides lines as they arrive, and counts the outcomes by key. */
class ThrottlePipe {
  readonly #decider
  readonly #origin: Origin
  readonly #key: BucketKey
  readonly #keys: KeyTally
  readonly #passed = new RawEncoder()
  readonly #discarded = new RawEncoder()
  readonly #totals: [passed: number, discarded: number, excluded: number] = [0, 0, 0]

  constructor(options: ThrottleOptions) {
    const wanted = new WantedNames()
    const compiled = deciderOptions(options, { field: path => new FieldReader(path, wanted) }, 0)
    this.#decider = createDecider(compiled, systemClock)
    this.#key = new BucketKey(compiled.keyFields)
    this.#origin = { source: 'stdin', host: hostname(), codec: JSON_OBJECTS, wanted }
    const { windowMs, mode } = compiled.limits[0]!
    this.#keys = new KeyTally(windowMs, mode === 'aligned')
  }

  /** The bytes to write for the lines of a frame; those of discarded lines only if they are wanted. */
  decide(frame: Frame, wantsDiscarded: boolean): { readonly passed: Buffer[]; readonly discarded: Buffer[] } {
    const batch = new EventBatch(frame, this.#origin, systemClock.wall(), new Ack(() => {}))
    const { decisions } = this.#decider.decide(batch)
    const now = systemClock.now()
    for (let i = 0; i < batch.length; i++) {
      const outcome = outcomeOf(decisions[i]!)
      this.#totals[outcome]++
      this.#keys.add(this.#keys.id(batch, i, this.#key), outcome, now)
    }
    const rest = wantsDiscarded ? batch.pick(i => outcomeOf(decisions[i]!) === DISCARDED) : undefined
    batch.retain(i => outcomeOf(decisions[i]!) !== DISCARDED)
    return {
      passed: this.#passed.encode([batch]).parts,
      discarded: rest ? this.#discarded.encode([rest]).parts : [],
    }
  }

  summary(style: { readonly columns: number | undefined; readonly colour: boolean }): string {
    const [passed, discarded, excluded] = this.#totals
    const events = passed + discarded + excluded
    const width = events.toLocaleString('en-US').length
    const row = (name: string, part: number) =>
      `  ${name.padEnd(9)}  ${part.toLocaleString('en-US').padStart(width)}  ${percent(part, events).padStart(7)}`
    const lines = [
      `sluice throttle: ${count(events, 'event')}`,
      row('passed', passed),
      row('discarded', discarded),
      ...(excluded > 0 ? [row('excluded', excluded)] : []),
      ...(events > 0 && this.#key.hasFields ? ['', ...keyTable(this.#keys, style)] : []),
    ]
    return lines.map(line => `${line}\n`).join('')
  }
}

function outcomeOf(decision: number): Outcome {
  if (decision === EXEMPT) return EXCLUDED
  return decision === DISCARD || decision === FULL || decision === TOO_LATE ? DISCARDED : PASSED
}
