import type { BucketPart } from '../buckets/bucket-part.js'
import { type Key, type KeyRanges, NONE, TO_FIND } from '../buckets/key-table.js'
import { PASS } from '../decisions.js'
import type { Limiter } from '../limiter.js'
import { CONDITIONAL } from '../rules/rule-finder.js'
import type { BucketLimiter, RuleLimits } from '../rules/rules.js'
import type { Windows } from '../windows.js'

/** Number of bits in an id that hold the number of the group. A separate loop decides the events of each group. */
const GROUP_BITS = 3
const MOST_GROUPS = 1 << GROUP_BITS

/** Buckets whose windows are in one object. For rules that let everything pass, `limiter` is undefined. */
interface Group {
  readonly limiter: BucketLimiter | undefined
  readonly part: BucketPart<Windows> | undefined
  readonly layout: object | undefined
  /** For each event of the last batch: its bucket id; NONE if the event is not in this group. */
  ids: Int32Array
}

/** A view of one key in `Keys`. The same object shows one key after another. */
class KeyAt implements Key {
  bytes: DataView
  start = 0
  end = 0
  hash = 0

  constructor({ bytes }: KeyRanges) {
    this.bytes = bytes
  }

  set({ starts, ends, hashes }: KeyRanges, i: number): this {
    this.start = starts[i]!
    this.end = ends[i]!
    this.hash = hashes[i]!
    return this
  }
}

/**
 * Finds the buckets of events for a throttle with rules. Each event must cost 1, and the key alone must determine the
 * rule. An id combines the id of the bucket in its group with the number of the group.
 */
export class RuledBuckets {
  readonly ruleLimits: RuleLimits
  readonly #limiter: Limiter
  /** Decides on events of the last batch in the windows of all groups. */
  readonly windows: Pick<Windows, 'takeAll'> = {
    takeAll: (_ids, from, to, now, decisions) => this.#takeAll(from, to, now, decisions),
  }
  /** Whether there are more than MOST_GROUPS groups. Deciding whole batches is then not worthwhile. */
  isTooDivided = false
  #groups: Group[] = []
  #layout = {}

  constructor(ruleLimits: RuleLimits, limiter: Limiter) {
    this.ruleLimits = ruleLimits
    this.#limiter = limiter
  }

  /** A new object each time that the id of any bucket changes. */
  get layout(): object {
    for (const { limiter, layout } of this.#groups) {
      if (limiter?.undivided?.layout === layout) continue
      this.#groups = []
      this.#layout = {}
      break
    }
    return this.#layout
  }

  findAll(keys: KeyRanges, length: number, left: number): void {
    if (left > 0) this.#find(keys, length)
    for (const [g, group] of this.#groups.entries()) this.#select(group, g, keys.ids, length)
  }

  #find(keys: KeyRanges, length: number): void {
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
    // Creates a limiter only when an event needs it. If it were created earlier, idle buckets would be dropped at other
    // times.
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

  /** Fills `group.ids` with the bucket id of each event in the group, and with NONE for all other events. */
  #select(group: Group, g: number, ids: Int32Array, length: number): void {
    if (group.ids.length < length) group.ids = new Int32Array(ids.length)
    const own = group.ids
    // Copies the constant, because V8 would otherwise look it up for each event.
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
