import { randomInt } from 'node:crypto'
import { PassThrough, type Readable, Transform, type TransformCallback } from 'node:stream'
import type { z } from 'zod'
import { JSON_OBJECTS } from './codecs/json.js'
import { OptionsError, parseOptions } from './config/parse-options.js'
import { Ack } from './core/ack.js'
import { EventBatch } from './core/batch.js'
import { FieldReader } from './core/field-reader.js'
import type { Origin } from './core/origin.js'
import { WantedNames } from './lib/json-scan.js'
import { type Clock, systemClock } from './lib/time.js'
import { packageVersion } from './lib/version.js'
import { deciderOptions, throttleOptions } from './processors/throttle/options.js'
import { EXCLUDED, FAIL_OPEN } from './throttle/decider.js'
import { LATE } from './throttle/event-windows.js'
import { PASS } from './throttle/keyed-limiter.js'
import { type BatchDecider, createDecider } from './throttle/live-decider.js'

/** Sluice as a library: its throttle in streams of your own. */

export { type Fault, OptionsError } from './config/parse-options.js'
export type { Clock } from './lib/time.js'

/** The version of the package, as in `0.1.0`. */
export const version: string = packageVersion()

/** The options of the `throttle` processor, with the names and values that they have in a configuration. */
export type ThrottleOptions = z.input<typeof throttleOptions>

export interface ThrottleSurroundings {
  /** Stands in for the clocks of the system: monotonic, and since the epoch. */
  readonly clock?: Clock
  /** Events that may wait at each side of the stream; Node's default when it is not given. */
  readonly highWaterMark?: number
}

/** What became of the events so far: received = passed + excluded + discarded + fail_open + late. */
export interface ThrottleStats {
  readonly received: number
  readonly passed: number
  /** Passed because of `exclude`. */
  readonly excluded: number
  readonly discarded: number
  /** Passed without being counted, since `max_keys` others were in use. */
  readonly fail_open: number
  /** Passed without being counted, since they were later than `allowed_lateness`. */
  readonly late: number
  /** Buckets in memory, without the default one. */
  readonly buckets: number
}

/** An object-mode stream that passes at most `limit` events of each bucket in each window. */
export interface Throttle extends Transform {
  /**
   * The events that do not pass, in order. From the first look at it on they are kept for its reader, and a reader that
   * is slow slows the throttle down; until then they are dropped, and counted.
   */
  readonly discarded: Readable
  readonly stats: ThrottleStats
}

/**
 * A throttle as a stream. An event is an object, or a line: a string or Buffer, whose fields are read when it holds a
 * JSON object, and which has the field `message` otherwise. What passes is the very chunk that was written. Throws
 * OptionsError.
 */
export function createThrottle(options: ThrottleOptions, surroundings: ThrottleSurroundings = {}): Throttle {
  const parsed = parseOptions(throttleOptions, options)
  if ('faults' in parsed) throw new OptionsError('createThrottle', parsed.faults)
  const wanted = new WantedNames()
  const compiled = deciderOptions(parsed.value, { field: path => new FieldReader(path, wanted) }, randomInt(2 ** 31))
  const decider = createDecider(compiled, surroundings.clock ?? systemClock)
  return new EventThrottle(decider, wanted, surroundings.highWaterMark)
}

const NO_LINE = Buffer.alloc(0)

class EventThrottle extends Transform implements Throttle {
  readonly #decider: BatchDecider
  readonly #origin: Origin
  /** A batch of one event, which is each object in turn. */
  readonly #one: EventBatch
  #received = 0
  readonly #counts = { passed: 0, excluded: 0, discarded: 0, fail_open: 0, late: 0 }
  #discarded: PassThrough | undefined

  constructor(decider: BatchDecider, wanted: WantedNames, highWaterMark: number | undefined) {
    super({ objectMode: true, ...(highWaterMark === undefined ? {} : { highWaterMark }) })
    this.#decider = decider
    this.#origin = { source: '', host: '', codec: JSON_OBJECTS, wanted }
    this.#one = this.#batch(NO_LINE)
  }

  get discarded(): Readable {
    if (!this.#discarded) {
      this.#discarded = new PassThrough({ objectMode: true, highWaterMark: this.writableHighWaterMark })
      if (this.writableFinished) this.#discarded.end()
      else if (this.destroyed) this.#discarded.destroy()
    }
    return this.#discarded
  }

  get stats(): ThrottleStats {
    return { received: this.#received, ...this.#counts, buckets: this.#decider.buckets }
  }

  /** A batch of one line. */
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

  override _transform(event: unknown, _encoding: string, done: TransformCallback): void {
    let passes: boolean
    try {
      passes = this.#passes(event)
    } catch (error) {
      done(error as Error)
      return
    }
    if (passes) done(null, event)
    else this.#discard(event, done)
  }

  #passes(event: unknown): boolean {
    const batch = this.#batchOf(event)
    this.#received++
    const decision = this.#decider.decide(batch).decisions[0]
    if (decision === PASS) this.#counts.passed++
    else if (decision === EXCLUDED) this.#counts.excluded++
    else if (decision === FAIL_OPEN) this.#counts.fail_open++
    else if (decision === LATE) this.#counts.late++
    else {
      this.#counts.discarded++
      return false
    }
    return true
  }

  #batchOf(event: unknown): EventBatch {
    if (typeof event === 'string') return this.#batch(Buffer.from(event))
    if (typeof event !== 'object' || event === null) {
      throw new TypeError(`an event must be an object, a string or a Buffer, not a ${typeof event}`)
    }
    if (event instanceof Uint8Array) return this.#batch(Buffer.from(event.buffer, event.byteOffset, event.byteLength))
    this.#one.modify(0, event as Record<string, unknown>)
    return this.#one
  }

  #discard(event: unknown, done: TransformCallback): void {
    const to = this.#discarded
    if (!to || to.destroyed || to.write(event)) {
      done()
      return
    }
    const go = () => {
      to.off('drain', go)
      to.off('close', go)
      done()
    }
    to.on('drain', go)
    to.on('close', go)
  }

  override _flush(done: TransformCallback): void {
    this.#discarded?.end()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#discarded?.writableEnded) this.#discarded?.destroy()
    done(error)
  }
}
