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

/** Buckets that may be looked at for each key that was refused. */
const LOOKED_AT_PER_REFUSED = 8
/** The share of buckets that must be idle for it to be worth it to drop them before their time. */
const WORTH_DROPPING = 16

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
  #turnedAt = Number.NEGATIVE_INFINITY
  #droppedAt = Number.NEGATIVE_INFINITY
  /** New keys refused since the last look for idle buckets. */
  #refused = 0

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
    const { windowMs } = this.#options
    if (now - this.#turnedAt < windowMs) return
    // Two windows on, nothing at all happened for a whole window: the young are idle too.
    const both = now - this.#turnedAt >= windowMs * 2
    this.#old = both ? this.#generation() : this.#young
    this.#oldCount = this.#old.keys.size
    this.#young = this.#generation()
    this.#turnedAt = now
  }

  /** One event of the default bucket. */
  takeDefault(now: number): typeof PASS | typeof DISCARD {
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
    if (old < 0 && this.keys >= this.#options.maxKeys && !this.#makeRoom(now)) return -1
    const { keys, windows } = this.#young
    const id = keys.add(bytes, start, end, hash)
    windows.reserve(id + 1)
    if (old >= 0) {
      windows.adopt(id, this.#old.windows, old)
      this.#oldCount--
    }
    return id
  }

  /**
   * Drops idle buckets before their generation's time, since `maxKeys` is reached; whether there is room now. The work
   * is in proportion to the keys that were refused, whatever comes: among many buckets, idle ones are seen after an
   * eighth as many refusals, or an eighth of a window.
   */
  #makeRoom(now: number): boolean {
    const { windowMs } = this.#options
    const due = now - this.#droppedAt >= windowMs / 8
    if (!due && ++this.#refused * LOOKED_AT_PER_REFUSED < this.keys) return false
    this.#refused = 0
    if (due) this.#droppedAt = now
    const young = this.#live(this.#young, now)
    const old = this.#oldCount > 0 ? this.#live(this.#old, now) : 0
    const idle = this.keys - young - old
    if (idle === 0 || (!due && idle * WORTH_DROPPING < this.keys)) return false
    const kept = this.#generation()
    this.#keep(kept, this.#young, now)
    if (old > 0) this.#keep(kept, this.#old, now)
    this.#young = kept
    this.#old = this.#generation()
    this.#oldCount = 0
    return true
  }

  #isLive(windows: Windows, id: number, now: number): boolean {
    return now - windows.latest(id) < this.#options.windowMs
  }

  #live({ keys, windows }: Generation, now: number): number {
    let live = 0
    for (let id = 0; id < keys.size; id++) if (this.#isLive(windows, id, now)) live++
    return live
  }

  #keep(into: Generation, from: Generation, now: number): void {
    for (let id = 0; id < from.keys.size; id++) {
      if (!this.#isLive(from.windows, id, now)) continue
      const at = into.keys.take(from.keys, id)
      into.windows.reserve(at + 1)
      into.windows.adopt(at, from.windows, id)
    }
  }
}
