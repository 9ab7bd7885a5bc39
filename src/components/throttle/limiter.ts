import type { BucketPart, PlacedKey } from './bucket-part.js'
import type { Level, Limit } from './limit.js'
import type { Rule } from './rules.js'
import type { Windows } from './windows.js'

/** What decides by the limits of buckets. */

export type Taken = typeof PASS | typeof DISCARD | typeof FULL
/** Within the limit, and counted. */
export const PASS = 0
/** Beyond the limit. */
export const DISCARD = 1
/** A new key while `maxKeys` others are in use; not counted. */
export const FULL = 2

export interface LimiterOptions {
  /** At least one. */
  readonly limits: readonly Limit[]
  readonly maxKeys: number
  /** Any integer; random if keys come from outside. */
  readonly seed: number
  /** Whether buckets are saved when they have changed. */
  readonly persists?: boolean | undefined
}

/** Limits by key, in event time or clock time. Costs and sizes are those of `Windows`. */
export interface Limiter<T> {
  /** Of the hashes of keys. */
  readonly seed: number
  /** What takes events with a key in its place; other rules may share it. */
  readonly shared?: Limiter<T> | undefined
  /** What has all buckets with a key, if that is one part, whose windows are in clock time. Undefined while there are none. */
  readonly undivided?: BucketPart<Windows> | undefined
  take(key: PlacedKey, time: number): T | typeof FULL
  takeDefault(time: number): T
  takeCost(key: PlacedKey, time: number, cost: number, size: number): T | typeof FULL
  takeDefaultCost(time: number, cost: number, size: number): T
  level(key: PlacedKey, time: number, cost: number, size: number): Level | undefined
  levelOfDefault(time: number, cost: number, size: number): Level
}

/** A limiter that has one for each rule. */
export interface RuledLimiter<T> extends Limiter<T> {
  /** The limiter of a rule, with buckets of its own. */
  ofRule(rule: Rule): Limiter<T>
  /** Drops the limiters of all other rules. */
  keepRules(rules: readonly Rule[]): void
}
