import { getDefaultHighWaterMark, PassThrough, type Readable, Transform, type TransformCallback } from 'node:stream'
import type { z } from 'zod'
import { deciderOptions } from './components/processors/throttle/decider-options.js'
import { streamThrottleOptions, throttleOptions } from './components/processors/throttle/options.js'
import { createDecider } from './components/throttle/create-decider.js'
import type { Decider } from './components/throttle/decider.js'
import { DISCARD, EXCLUDED, FAIL_OPEN, FULL, LATE, PASS, TOO_LATE } from './components/throttle/decisions.js'
import { JSON_OBJECTS } from './core/codecs/json.js'
import { Ack } from './core/event/ack.js'
import { EventBatch } from './core/event/batch.js'
import { type FieldPath, valueAt } from './core/event/field-path.js'
import { FieldReader, type ValueKind } from './core/event/field-reader.js'
import type { Origin } from './core/event/origin.js'
import { OptionsError, parseOptions } from './engine/config/parse-options.js'
import { WantedNames } from './lib/formats/json-scan.js'
import { type Clock, systemClock } from './lib/time.js'
import { packageVersion } from './lib/version.js'

/** Sluice as a library: the throttle as a stream for other programs. */

export type { Fault } from './core/errors.js'
export { OptionsError } from './engine/config/parse-options.js'
export type { Clock } from './lib/time.js'

/** The version of the package, as in `0.1.0`. */
export const version: string = packageVersion()

/** The options of the `throttle` processor, with the same names and values as in a configuration. */
export type ThrottleOptions = z.input<typeof streamThrottleOptions>

export interface ThrottleSurroundings {
  /** Replaces the system clocks: the monotonic clock and the wall clock. */
  readonly clock?: Clock
  /** Maximum events that wait at each side of the stream. Default: the default of Node.js. */
  readonly highWaterMark?: number
}

/** Event counts so far. received = passed + excluded + discarded + fail_open + late. */
export interface ThrottleStats {
  readonly received: number
  readonly passed: number
  /** Events that passed because of `exclude`. */
  readonly excluded: number
  readonly discarded: number
  /** Events that passed without being counted, because `max_keys` other buckets were in use. */
  readonly fail_open: number
  /** Events that passed without being counted: they were later than `allowed_lateness`. */
  readonly late: number
  /** Number of buckets in memory, without the default bucket. */
  readonly buckets: number
}

/** An object-mode stream that passes at most `limit` events of each bucket in each window. */
export interface Throttle extends Transform {
  /**
   * The events that do not pass, in order. Until this property is read for the first time, these events are only
   * counted. Afterwards they are kept for the reader, and a slow reader slows down the throttle.
   */
  readonly discarded: Readable
  readonly stats: ThrottleStats
}

/**
 * Creates a throttle as a stream. An event is an object, or a line as a string or a Buffer. A line that is a JSON
 * object has the fields of this object. Any other line has only the field `message`. The stream passes on the written
 * chunks themselves, not copies. Throws OptionsError.
 */
export function createThrottle(options: ThrottleOptions, surroundings: ThrottleSurroundings = {}): Throttle {
  const parsed = parseOptions(streamThrottleOptions, options)
  if ('faults' in parsed) throw new OptionsError('createThrottle', parsed.faults)
  return new EventThrottle(throttleOptions.parse(options), surroundings)
}

const NO_LINE = Buffer.alloc(0)
const isLine = (event: unknown) => typeof event === 'string' || event instanceof Uint8Array

/** Reads a field of an object, or of a line. */
class EventReader extends FieldReader {
  readonly #segments: FieldPath['segments']
  readonly #event: () => unknown

  /** `event` returns the event on which the throttle is deciding. */
  constructor(path: FieldPath, wanted: WantedNames, event: () => unknown) {
    super(path, wanted)
    this.#segments = path.segments
    this.#event = event
  }

  override load(batch: EventBatch, i: number): ValueKind {
    const event = this.#event()
    return isLine(event) ? super.load(batch, i) : this.setValue(valueAt(event, this.#segments))
  }
}

class EventThrottle extends Transform implements Throttle {
  readonly #decider: Decider
  readonly #origin: Origin
  /** This batch stands for every event that is an object. EventReader reads the fields from the object itself. */
  readonly #one: EventBatch
  #event: unknown
  #received = 0
  /** Number of events by decision. */
  readonly #counts = new Float64Array(TOO_LATE + 1)
  readonly #discarded: PassThrough
  #isDiscardedRead = false

  constructor(options: z.output<typeof throttleOptions>, { clock = systemClock, highWaterMark }: ThrottleSurroundings) {
    const streams = { objectMode: true, highWaterMark: highWaterMark ?? getDefaultHighWaterMark(true) }
    super(streams)
    this.#discarded = new PassThrough(streams)
    const wanted = new WantedNames()
    const field = (path: FieldPath) => new EventReader(path, wanted, () => this.#event)
    this.#decider = createDecider(deciderOptions(options, { field }), clock)
    this.#origin = { source: '', host: '', codec: JSON_OBJECTS, wanted }
    this.#one = this.#batch(NO_LINE)
  }

  get discarded(): Readable {
    this.#isDiscardedRead = true
    return this.#discarded
  }

  get stats(): ThrottleStats {
    const of = (decision: number) => this.#counts[decision]!
    return {
      received: this.#received,
      passed: of(PASS),
      excluded: of(EXCLUDED),
      discarded: of(DISCARD) + of(FULL) + of(TOO_LATE),
      fail_open: of(FAIL_OPEN),
      late: of(LATE),
      buckets: this.#decider.buckets,
    }
  }

  override _transform(event: unknown, _encoding: string, done: TransformCallback): void {
    let decision: number
    try {
      const batch = this.#batchOf(event)
      this.#event = event
      this.#received++
      decision = this.#decider.decide(batch).decisions[0]!
    } catch (error) {
      done(error as Error)
      return
    }
    this.#counts[decision]!++
    if (decision === DISCARD || decision === FULL || decision === TOO_LATE) this.#discard(event, done)
    else done(null, event)
  }

  #batchOf(event: unknown): EventBatch {
    if (typeof event === 'string') return this.#batch(Buffer.from(event))
    if (typeof event !== 'object' || event === null) {
      throw new TypeError(`an event must be an object, a string or a Buffer, not a ${typeof event}`)
    }
    if (event instanceof Uint8Array) return this.#batch(Buffer.from(event.buffer, event.byteOffset, event.byteLength))
    return this.#one
  }

  /** A batch of one line. Nobody waits for its acknowledgement. */
  #batch(line: Buffer): EventBatch {
    const frame = {
      chunk: line,
      length: 1,
      starts: new Int32Array(1),
      ends: Int32Array.of(line.length),
      flags: new Uint8Array(1),
      bytes: line.length,
    }
    return new EventBatch(frame, this.#origin, 0, new Ack(() => {}))
  }

  /** Calls `done` when the reader of discarded events has room or has closed the stream. */
  #discard(event: unknown, done: TransformCallback): void {
    const output = this.#discarded
    if (!this.#isDiscardedRead || output.destroyed || output.write(event)) {
      done()
      return
    }
    const goOn = () => {
      output.off('drain', goOn).off('close', goOn)
      done()
    }
    output.on('drain', goOn).on('close', goOn)
  }

  override _flush(done: TransformCallback): void {
    this.#discarded.end()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#discarded.writableEnded) this.#discarded.destroy()
    done(error)
  }
}
