import { KeyedBuckets } from './keyed-buckets.js'
import { createWindows, type WindowMode, type Windows } from './windows.js'

/** No stream, no clock, no input or output: the throttle's decisions as a function of keys and times. */

export type Taken = typeof PASS | typeof DISCARD | typeof FULL
/** Within the limit, and counted. */
export const PASS = 0
/** Beyond the limit. */
export const DISCARD = 1
/** A new key while `maxKeys` others are in use: not counted. */
export const FULL = 2

export interface LimiterOptions {
  readonly limit: number
  readonly windowMs: number
  readonly mode: WindowMode
  readonly maxKeys: number
  /** Any whole number; random where keys come from outside. */
  readonly seed: number
}

/** Windows by key in the time of a clock. A bucket is idle when none of it is open any more. */
export class KeyedLimiter {
  readonly #default: Windows
  readonly #buckets: KeyedBuckets<Windows>

  constructor({ mode, limit, windowMs, maxKeys, seed }: LimiterOptions) {
    const create = () => createWindows(mode, limit, windowMs)
    this.#default = create()
    this.#buckets = new KeyedBuckets({ idleMs: windowMs, maxKeys, seed, unusedIsIdle: true }, create)
  }

  /** Buckets in memory, without the default one. */
  get keys(): number {
    return this.#buckets.size
  }

  /** Drops what is idle. Called before the takes of one point in time. */
  advance(now: number): void {
    this.#buckets.advance(now)
  }

  /** One event of the default bucket. */
  takeDefault(now: number): typeof PASS | typeof DISCARD {
    return this.#default.take(0, now) ? PASS : DISCARD
  }

  /** One event of the bucket whose key is bytes[start, end). */
  take(bytes: Uint8Array, start: number, end: number, now: number): Taken {
    const id = this.#buckets.bucket(bytes, start, end, now)
    if (id < 0) return FULL
    return this.#buckets.windows.take(id, now) ? PASS : DISCARD
  }
}
