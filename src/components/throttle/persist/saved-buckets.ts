import { createHash } from 'node:crypto'
import type { KeyedBuckets } from '../buckets/keyed-buckets.js'
import type { Timing } from '../limiter.js'
import type { Rule } from '../rules/rule.js'
import type { BucketColumns } from '../windows.js'
import { HEAD_BYTES } from './blocks.js'
import { StateReader, StateWriter } from './state-bytes.js'

/** Buckets that have the same limits: the buckets of a throttle itself, or of one of its rules. */
interface Group {
  readonly buckets: Pick<KeyedBuckets<BucketColumns>, 'defaults' | 'write' | 'read'>
  readonly ofRules: ReadonlyMap<string, { readonly saved: Group }>
}

/** A limiter that records changed buckets (`persists`). */
export interface SavedLimiter {
  readonly saved: Group
  readonly timing: Pick<Timing, 'progress' | 'present'>
  readonly seed: number
  ofRule(rule: Rule): unknown
}

/** A block becomes slightly larger than this. Writing a block takes about a millisecond. */
const BLOCK_BYTES = 256 * 1024
/** Written instead of a key's length if the bucket is the default bucket. */
const DEFAULT = 0xffffffff
/** Written instead of a rule's digest if the section holds the progress of event times. */
const PROGRESS = 'progress'

/**
 * Writes the state of buckets as blocks. A block consists of sections. A section has the digest of a rule's id (empty
 * for the throttle itself), the length of its content, and buckets with their keys. In event time, one section holds
 * the progress instead of buckets.
 */
export class SavedBuckets {
  readonly #limiter: SavedLimiter
  readonly #now: () => number
  /** By the digest of each rule: the last written state of its default bucket. */
  readonly #defaults = new Map<string, Buffer>()
  readonly #digests = new Map<string, string>()
  readonly #to = new StateWriter()

  /** `now` returns the current time. Buckets that are idle at this time are not written. */
  constructor(limiter: SavedLimiter, now: () => number) {
    this.#limiter = limiter
    this.#now = now
  }

  /**
   * Yields blocks with all buckets if `all`, otherwise with the buckets that changed since they were last written. A
   * block is valid until the next block is requested, and has room for its head (`sealBlock`). Creating a block takes
   * about a millisecond. Decisions may be made between two blocks.
   */
  *blocks(all: boolean): Generator<Buffer> {
    const to = this.#to
    const { saved, timing } = this.#limiter
    const { progress } = timing
    to.length = HEAD_BYTES
    if (all) this.#forgetRemoved(saved.ofRules)
    if (progress) {
      const section = new Section(to, PROGRESS)
      progress.write(to)
      section.end()
    }
    yield* this.#blocksOf('', saved, all)
    for (const [id, limiter] of saved.ofRules) yield* this.#blocksOf(this.#digest(id), limiter.saved, all)
    if (to.length > HEAD_BYTES) yield to.written()
  }

  /** Writes the buckets of a group. Yields each full block. The remaining buckets go into the next block. */
  *#blocksOf(rule: string, { buckets }: Group, all: boolean): Generator<Buffer> {
    const to = this.#to
    let section = new Section(to, rule)
    to.whole(DEFAULT)
    const start = to.length
    buckets.defaults.write(0, to)
    const state = to.written(start)
    if (!all && this.#defaults.get(rule)?.equals(state)) section.empty()
    else this.#defaults.set(rule, Buffer.from(state))
    for (const _ of buckets.write(to, all, this.#now, BLOCK_BYTES)) {
      section.end()
      yield to.written()
      to.length = HEAD_BYTES
      section = new Section(to, rule)
    }
    section.end()
  }

  /** If a removed rule returns, its default bucket is written again. */
  #forgetRemoved(ofRules: Group['ofRules']): void {
    for (const [id, digest] of this.#digests) {
      if (ofRules.has(id)) continue
      this.#digests.delete(id)
      this.#defaults.delete(digest)
    }
  }

  #digest(id: string): string {
    const digest = this.#digests.get(id) ?? digestOf(id)
    this.#digests.set(id, digest)
    return digest
  }
}

class Section {
  readonly #to: StateWriter
  readonly #start: number
  readonly #content: number

  constructor(to: StateWriter, rule: string) {
    this.#to = to
    this.#start = to.length
    to.bytes(Buffer.from(rule))
    to.whole(0)
    this.#content = to.length
  }

  empty(): void {
    this.#to.length = this.#content
  }

  /** Removes the section if it is empty. */
  end(): void {
    const length = this.#to.length - this.#content
    if (length === 0) this.#to.length = this.#start
    else this.#to.setWhole(this.#content - 4, length)
  }
}

/** A digest is used because ids of rules can have any length. */
function digestOf(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 32)
}

/** Reads the content of blocks into the buckets of a limiter. */
export class BucketsReader {
  /** Digests of rules that are not in use any more. Their buckets are skipped. */
  readonly unknown = new Set<string>()
  /** Number of buckets skipped because there was no room for them. */
  withoutRoom = 0
  readonly #limiter: SavedLimiter
  readonly #rules: ReadonlyMap<string, Rule>

  /** `rules`: all rules that are in use now. */
  constructor(limiter: SavedLimiter, rules: readonly Rule[]) {
    this.#limiter = limiter
    this.#rules = new Map(rules.map(rule => [digestOf(rule.id), rule]))
  }

  /** `shiftMs` is added to clock times. `now` is the current clock time. In event time, both have no effect. */
  read(content: Buffer, now: number, shiftMs: number, hasSums = false): void {
    const from = new StateReader(content, now, shiftMs, hasSums)
    while (!from.isAtEnd) {
      const start = from.bytes(from.whole())
      const rule = content.toString('latin1', start, from.at)
      const length = from.whole()
      const group = rule === PROGRESS ? undefined : this.#group(rule)
      if (rule === PROGRESS) this.#limiter.timing.progress!.read(from)
      else if (group) this.#readSection(group, from, from.at + length)
      else from.bytes(length)
    }
  }

  #readSection({ buckets }: Group, from: StateReader, end: number): void {
    const { progress } = this.#limiter.timing
    if (progress) from.now = progress.oldest
    while (from.at < end) {
      const length = from.whole()
      if (length === DEFAULT) buckets.defaults.read(0, from)
      else if (!buckets.read(length, from, this.#limiter.seed)) this.withoutRoom++
    }
  }

  #group(digest: string): Group | undefined {
    const { saved } = this.#limiter
    if (digest === '') return saved
    const rule = this.#rules.get(digest)
    if (rule === undefined) {
      this.unknown.add(digest)
      return undefined
    }
    this.#limiter.ofRule(rule)
    return saved.ofRules.get(rule.id)?.saved
  }
}
