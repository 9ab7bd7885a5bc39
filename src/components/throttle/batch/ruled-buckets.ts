import type { BucketPart } from '../buckets/bucket-part.js'
import { type Key, type Keys, NONE, TO_FIND } from '../buckets/key-table.js'
import { PASS } from '../decisions.js'
import type { Limiter } from '../limiter.js'
import { CONDITIONAL } from '../rules/rule-finder.js'
import type { BucketLimiter, RuleLimits } from '../rules/rules.js'
import type { Windows } from '../windows.js'

/** How many bits of an id hold the number of its group. Each group is decided in its own loop. */
const GROUP_BITS = 3
const MOST_GROUPS = 1 << GROUP_BITS

/** Buckets with the same windows. `limiter` is undefined for rules that let everything pass. */
interface Group {
  readonly limiter: BucketLimiter | undefined
  readonly part: BucketPart<Windows> | undefined
  readonly layout: object | undefined
  /** Bucket ids of the last batch's events; NONE for events of other groups. */
  ids: Int32Array
}

/** A view of one key in `Keys`. One object serves all keys in turn. */
class KeyAt implements Key {
  bytes: DataView
  start = 0
  end = 0
  hash = 0

  constructor({ bytes }: Keys) {
    this.bytes = bytes
  }

  set({ starts, ends, hashes }: Keys, i: number): this {
    this.start = starts[i]!
    this.end = ends[i]!
    this.hash = hashes[i]!
    return this
  }
}

/**
 * Finds the buckets of a throttle with rules, if the key alone determines the rule and each event costs 1. An id
 * consists of the bucket's id in its group and the group's number.
 */
export class RuledBuckets {
  readonly ruleLimits: RuleLimits
  readonly #limiter: Limiter
  /** Takes from the windows of all groups, for the events of the last batch. */
  readonly windows: Pick<Windows, 'takeAll'> = {
    takeAll: (_ids, from, to, now, decisions) => this.#takeAll(from, to, now, decisions),
  }
  /** Whether there are too many groups for whole batches to be worthwhile. */
  isTooDivided = false
  #groups: Group[] = []
  #layout = {}

  constructor(ruleLimits: RuleLimits, limiter: Limiter) {
    this.ruleLimits = ruleLimits
    this.#limiter = limiter
  }

  /** Replaced by a new object when the id of any bucket changes. */
  get layout(): object {
    for (const { limiter, layout } of this.#groups) {
      if (limiter?.undivided?.layout === layout) continue
      this.#groups = []
      this.#layout = {}
      break
    }
    return this.#layout
  }

  findAll(keys: Keys, length: number, left: number): void {
    if (left > 0) this.#find(keys, length)
    for (const [g, group] of this.#groups.entries()) this.#select(group, g, keys.ids, length)
  }

  #find(keys: Keys, length: number): void {
    const { ids, found, alone } = keys
    const key = new KeyAt(keys)
    let [foundCount, aloneCount] = [0, 0]
    for (let i = 0; i < length; i++) {
      const wanted = ids[i]!
      if (wanted >= NONE) continue
      const id = wanted === TO_FIND ? this.#idOf(key.set(keys, i)) : NONE
      if (id < 0) alone[aloneCount++] = i
      else {
        ids[i] = id
        found[foundCount++] = i
      }
    }
    keys.foundCount = foundCount
    keys.aloneCount = aloneCount
  }

  #idOf(key: Key): number {
    const rule = this.ruleLimits.ofKey(key)
    if (rule === CONDITIONAL) return NONE
    // Does not create a limiter before an event needs it. Otherwise, idle buckets would be dropped at other times.
    const ruleLimit = rule < 0 ? undefined : this.ruleLimits.opened(rule)
    if (rule >= 0 && (ruleLimit === undefined || ruleLimit.costs !== undefined)) return NONE
    const limiter = ruleLimit === undefined ? this.#limiter : (ruleLimit.limiter?.shared ?? ruleLimit.limiter)
    const id = limiter === undefined ? 0 : (limiter.undivided?.find(key) ?? NONE)
    const group = id < 0 ? NONE : this.#groupOf(limiter)
    return group < 0 ? NONE : (id << GROUP_BITS) | group
  }

  #groupOf(limiter: BucketLimiter | undefined): number {
    const groups = this.#groups
    const known = groups.findIndex(group => group.limiter === limiter)
    if (known >= 0) return known
    if (groups.length === MOST_GROUPS) {
      this.isTooDivided = true
      return NONE
    }
    const part = limiter?.undivided
    return groups.push({ limiter, part, layout: part?.layout, ids: new Int32Array(0) }) - 1
  }

  /** Writes the bucket ids of a group's events to `group.ids`, and NONE for all other events. */
  #select(group: Group, g: number, ids: Int32Array, length: number): void {
    if (group.ids.length < length) group.ids = new Int32Array(ids.length)
    const own = group.ids
    // A local copy, because V8 would look up the constant for each event.
    const none = NONE | 0
    for (let i = 0; i < length; i++) {
      const id = ids[i]!
      own[i] = id >= 0 && (id & (MOST_GROUPS - 1)) === g ? id >> GROUP_BITS : none
    }
    group.part?.useAll(own, length)
  }

  #takeAll(from: number, to: number, now: number, decisions: Uint8Array): number {
    let discarded = 0
    for (const { part, ids } of this.#groups) {
      if (part !== undefined) discarded += part.windows.takeAll(ids, from, to, now, decisions)
      else for (let i = from; i < to; i++) if (ids[i]! >= 0) decisions[i] = PASS
    }
    return discarded
  }
}
