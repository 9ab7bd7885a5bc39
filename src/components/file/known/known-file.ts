import type { BigIntStats } from 'node:fs'
import type { Origin } from '../../../core/event/origin.js'
import type { Clock } from '../../../lib/time.js'
import { CheckTimes } from '../checks.js'
import { goneKey, type Identity, isCopyOnly, keyOf } from '../identity.js'
import type { Copy } from '../rotation/copy.js'
import { LONG_BYTES } from '../rotation/trail.js'
import { type Block, NAMED, type Order, orders, type Where, wheres } from './state.js'

export interface KnownContext {
  readonly clock: Clock
  /** Wall clock in milliseconds. All rotations before this time were observed. */
  lookedAt(): number
  /** Files that may have more to read than before. */
  readonly grown: { add(file: unknown): void }
  /** Called when the entry to save has changed. */
  onChanged(): void
  /** Called when the file has another path than before. */
  onMoved(file: unknown, before: string): void
}

/** Others read the fields, and change them by the transitions. */
export type Known = Readonly<KnownFile>

/**
 * What is known of a file that is read: its identity, its names, where it is, and what it waits for. Times are wall
 * clock in milliseconds, unless stated otherwise.
 */
export abstract class KnownFile {
  readonly origin: Origin
  /** When the file's size was checked without a read. */
  readonly checks: CheckTimes
  /** Device and inode of the file. A number is appended when another file may get this inode. */
  key = ''
  birth = 0n
  /** The owner of the file when it was last seen. */
  uid: number | undefined
  path = ''
  /** Where a sweep last found the file, and where it is if that is a link. */
  found = ''
  target = ''
  /** When the path last changed, on the monotonic clock. */
  movedAt = Number.NEGATIVE_INFINITY
  /** The numbers of the last sweeps that found the file, and that found it unchanged since its last read. */
  seenIn = 0
  sameIn = 0
  where: Where = NAMED
  block: Block
  order: Order = 'behind'
  /** Device and inode of the file that was found to be a copy of this one. */
  claimed: string | undefined
  /** Whether the first bytes have not been compared with those of other files yet, because the file was empty. */
  isUncompared = false
  /** After a truncation: the last time when the file surely held what was read. */
  truncatedSince: number | undefined
  size = 0
  /** Modification time at the last sweep, in nanoseconds. */
  changedAt = 0n
  /** At least until this time, the file contained what was read from it. */
  sureUntil: number
  /** The largest size seen while the file certainly contained what was read from it. */
  protected sureSize = 0
  /** How often a sweep found the file changed. */
  protected changes = 0
  /** When a sweep first found the file long. */
  protected longSince = Number.POSITIVE_INFINITY
  readonly #context: KnownContext
  /** The changes before the last check whether the file still held what was read. */
  #sureChanges = 0

  constructor(path: string, stat: Identity, origin: Origin, context: KnownContext) {
    this.origin = origin
    this.#context = context
    this.sureUntil = context.lookedAt()
    this.checks = new CheckTimes(context.clock)
    this.setFile(path, stat)
  }

  /** Whether nothing of the file has been read, in this run or before. */
  abstract readonly isNew: boolean
  /** How far the file was read. */
  protected abstract readonly end: number

  protected setFile(path: string, stat: Identity): void {
    this.key = keyOf(stat)
    this.birth = stat.birthtimeNs
    this.uid = stat.uid === undefined ? undefined : Number(stat.uid)
    this.rename(path)
    this.target = path
    this.size = 0
    this.sureSize = 0
  }

  /** Called when the file was found under another name. */
  rename(path: string): void {
    const before = this.path
    this.found = path
    if (path === before) return
    this.path = path
    this.movedAt = this.#context.clock.now()
    this.#context.onMoved(this, before)
    this.#context.onChanged()
  }

  /** Sets where a sweep found the file, and where it is if that is a link. */
  setNames({ found, target }: Pick<Known, 'found' | 'target'>): void {
    this.found = found
    this.target = target
  }

  /** Called when another file may get this inode. From then on, only the content identifies the closed file. */
  leave(): void {
    this.key = goneKey(this.key)
  }

  /** Called when the file was truncated. From then on, this is its old content, which is searched immediately. */
  truncated(): void {
    this.truncatedSince = this.sureUntil
    this.seenIn = 0
    this.leave()
  }

  /** Called when the sweep with this number found the file under the matching name `path`. */
  wasFound(sweep: number, path: string, isSame: boolean): void {
    this.mayBeThere(sweep)
    this.sameIn = isSame ? sweep : 0
    // While a file with several names has the name under which it was read first, it does not count as renamed.
    if (path === this.origin.path) this.rename(path)
    this.found = path
  }

  /** Called when the sweep with this number could not look for the file at its path. */
  mayBeThere(sweep: number): void {
    this.seenIn = sweep
    this.to(wheres.found)
  }

  /** Changes where the file is, by a transition of `wheres`. */
  to(transition: (where: Where, now: number) => Where): void {
    this.where = transition(this.where, this.#context.clock.now())
  }

  /** Changes why the file is not read, by a transition of `blocks`. */
  becomes(transition: (block: Block) => Block): void {
    this.block = transition(this.block)
  }

  /** Since when the file has not grown and was not found under a matching name, on the monotonic clock. */
  get awaySince(): number | undefined {
    return this.where.is === 'named' ? undefined : this.where.since
  }

  /** The compressed copy that is read after the file itself is gone. */
  get copy(): Copy | undefined {
    return this.where.is === 'copied' ? this.where.copy : undefined
  }

  /** Reads the rest of the file from a compressed copy. */
  readOn(copy: Copy): void {
    this.leave()
    this.to((_, since) => ({ is: 'copied', since, copy }))
  }

  /** Forgets a copy that is gone. Another file may get its inode. */
  leaveCopy(): void {
    this.to(wheres.copyLost)
    this.claim(undefined)
  }

  /** Records which file is a copy of this one. */
  claim(key: string | undefined): void {
    this.claimed = key
  }

  /** Sets whether the first bytes must still be compared with those of other files. */
  setUncompared(isUncompared: boolean): void {
    this.isUncompared = isUncompared
  }

  get held(): boolean {
    return this.block === 'held'
  }

  /** Whether an attempt to read the file has failed. */
  get failed(): boolean {
    return this.block !== undefined && this.block !== 'held'
  }

  /** Whether a sweep must look for the file before the file can be read. If so, the files that follow it also wait. */
  get isPostponed(): boolean {
    return this.block === 'held' || this.block === 'moved' || this.block === 'full'
  }

  /** Changes which files are read first, by a transition of `orders`. */
  turns(transition: (order: Order) => Order): void {
    this.order = transition(this.order)
  }

  /** Records a size. The recorded size never decreases, because bytes that are gone after a shrink still count. */
  sees(size: number): void {
    if (size <= this.size) return
    this.size = size
    this.turns(orders.grown)
    this.#context.grown.add(this)
    this.#context.onChanged()
  }

  /** Compares the file with the stat of a sweep. Returns true if there may be something to read. */
  look({ size: bytes, mtimeNs: changedAt, uid }: Pick<BigIntStats, 'size' | 'mtimeNs' | 'uid'>): boolean {
    const size = Number(bytes)
    this.uid = Number(uid)
    const isTouched = changedAt !== this.changedAt
    if (size !== this.size || isTouched) this.changes += this.changedAt === 0n ? 0 : 1
    else if (this.changes === this.#sureChanges) this.becomesSure()
    this.sees(size)
    if (size >= LONG_BYTES && this.longSince === Number.POSITIVE_INFINITY)
      this.longSince = this.isNew ? 0 : this.#context.clock.wall()
    if (isTouched) this.changedAt = changedAt
    return size !== this.end || isTouched
  }

  /**
   * Records that the file surely still held what was read, both when its size was `size` and at the time `until`.
   * `changes`: how many changes had been found at that time.
   */
  becomesSure(size = 0, until = this.#context.lookedAt(), changes = this.changes): void {
    this.#sureChanges = changes
    this.sureSize = Math.max(this.sureSize, size)
    this.sureUntil = Math.max(this.sureUntil, until)
  }

  isNewerThan(other: Known): boolean {
    if (isCopyOnly(this.key) === isCopyOnly(other.key)) return this.birth > other.birth
    return isCopyOnly(other.key) ? follows(this, other.birth) : !follows(other, this.birth)
  }
}

/**
 * Whether a file was created at the rotation of another file (last written at `writtenAt`). Programs write to a renamed
 * file for a while, and copies may have rounded times. So `writtenAt` may be after this file's birth, but must be
 * nearer to its birth than to its last change.
 */
function follows({ birth, changedAt }: Known, writtenAt: bigint): boolean {
  return birth > writtenAt || writtenAt - birth < changedAt - writtenAt
}
