import { hashBytes, KeyTable } from './key-table.js'
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

/** The buckets first used, or used again, in one span of time. */
interface Generation {
  readonly keys: KeyTable
  readonly windows: Windows
}

/**
 * Buckets by key, in two generations: a lookup finds a bucket in the young one or moves it there from the old one.
 * After a window's length the young become the old, and what is still in the old then was not used for a whole window:
 * it is idle, and dropped at once. So idle buckets are released without a sweep, and no live window is ever forgotten.
 */
export class KeyedLimiter {
  readonly #options: LimiterOptions
  readonly #default: Windows
  #young: Generation
  #old: Generation
  /** Buckets of the old generation that were not moved. */
  #oldCount = 0
  #turnsAt = Number.NEGATIVE_INFINITY
  #purgeAt = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#options = options
    this.#default = this.#windows()
    this.#young = this.#generation()
    this.#old = this.#generation()
  }

  #windows(): Windows {
    return createWindows(this.#options.mode, this.#options.limit, this.#options.windowMs)
  }

  #generation(): Generation {
    return { keys: new KeyTable(), windows: this.#windows() }
  }

  /** Buckets in memory, without the default one. */
  get keys(): number {
    return this.#young.keys.size + this.#oldCount
  }

  /** Drops what is idle. Called before the takes of one point in time. */
  advance(now: number): void {
    if (now < this.#turnsAt) return
    const { windowMs } = this.#options
    // Nothing at all happened for a whole window: the young are idle too.
    const both = now - this.#turnsAt >= windowMs
    this.#old = both ? this.#generation() : this.#young
    this.#oldCount = this.#old.keys.size
    this.#young = this.#generation()
    this.#turnsAt = now + windowMs
  }

  /** One event of the default bucket. */
  takeDefault(now: number): Taken {
    return this.#default.take(0, now) ? PASS : DISCARD
  }

  /** One event of the bucket whose key is bytes[start, end). */
  take(bytes: Uint8Array, start: number, end: number, now: number): Taken {
    const hash = hashBytes(bytes, start, end, this.#options.seed)
    let id = this.#young.keys.find(bytes, start, end, hash)
    if (id < 0) {
      id = this.#enter(bytes, start, end, hash, now)
      if (id < 0) return FULL
    }
    return this.#young.windows.take(id, now) ? PASS : DISCARD
  }

  /** The id of a bucket that is not among the young: from the old, or new; -1 where there is no room for a new one. */
  #enter(bytes: Uint8Array, start: number, end: number, hash: number, now: number): number {
    const old = this.#oldCount > 0 ? this.#old.keys.find(bytes, start, end, hash) : -1
    if (old < 0 && this.keys >= this.#options.maxKeys && !this.#purge(now)) return -1
    const { keys, windows } = this.#young
    const id = keys.add(bytes, start, end, hash)
    windows.reserve(id + 1)
    if (old >= 0) {
      windows.adopt(id, this.#old.windows, old)
      this.#oldCount--
    }
    return id
  }

  /** Looks for idle buckets one by one, now and then, when `maxKeys` is reached; whether there is room then. */
  #purge(now: number): boolean {
    if (now < this.#purgeAt) return false
    this.#purgeAt = now + this.#options.windowMs / 8
    const kept = this.#generation()
    const old = this.#old
    const young = this.#young
    for (let id = 0; id < young.keys.size; id++) if (!young.windows.idle(id, now)) keep(kept, young, id)
    for (let id = 0; this.#oldCount > 0 && id < old.keys.size; id++) {
      if (!old.windows.idle(id, now) && !kept.keys.has(old.keys, id)) keep(kept, old, id)
    }
    this.#young = kept
    this.#old = this.#generation()
    this.#oldCount = 0
    return this.keys < this.#options.maxKeys
  }
}

function keep(into: Generation, from: Generation, id: number): void {
  const at = into.keys.take(from.keys, id)
  into.windows.reserve(at + 1)
  into.windows.adopt(at, from.windows, id)
}
