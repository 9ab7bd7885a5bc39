/** Buckets that share a room. */
interface Member {
  /** Drops idle buckets if it is time. */
  advance(now: number): void
  /** Drops idle buckets early, if that is worth its cost. */
  makeRoom(now: number): void
  /** Drops all idle buckets. */
  dropIdle(now: number): void
}

/** How many members are advanced at a time. */
const AT_ONCE = 16

/** Bounds the number of buckets of several KeyedBuckets together. Their turns come one after the other. */
export class BucketRoom {
  /** Number of buckets in memory. */
  size = 0
  /** Number of buckets that were dropped because they were idle, or their rule is gone. */
  dropped = 0
  readonly #maxKeys: number
  readonly #members: Member[] = []
  #clearedAt = Number.NEGATIVE_INFINITY
  #advanced = 0
  #searched = 0

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  /** Counts buckets as dropped. */
  drop(buckets: number): void {
    this.size -= buckets
    this.dropped += buckets
  }

  add(member: Member): void {
    this.#members.push(member)
  }

  /** Removes a member that has no buckets any more. */
  remove(member: Member): void {
    this.#members.splice(this.#members.indexOf(member), 1)
  }

  advance(now: number): void {
    const members = this.#members
    for (let n = Math.min(members.length, AT_ONCE); n > 0; n--) {
      this.#advanced = (this.#advanced + 1) % members.length
      members[this.#advanced]!.advance(now)
    }
  }

  /** Whether there is room for one more bucket, possibly after dropping idle ones. */
  hasRoom(now: number): boolean {
    if (this.size < this.#maxKeys) return true
    this.#searched = (this.#searched + 1) % this.#members.length
    this.#members[this.#searched]!.makeRoom(now)
    return this.size < this.#maxKeys
  }

  /** Drops all idle buckets, which is slow, unless it has done so at this time. Returns whether there is room then. */
  dropIdle(now: number): boolean {
    if (now > this.#clearedAt) {
      this.#clearedAt = now
      for (const member of this.#members) member.dropIdle(now)
    }
    return this.size < this.#maxKeys
  }
}
