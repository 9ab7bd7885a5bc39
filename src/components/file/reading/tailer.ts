import type { BigIntStats } from 'node:fs'
import { dirname } from 'node:path'
import type { Output } from '../../../core/component.js'
import { EventBatch } from '../../../core/event/batch.js'
import type { Origin } from '../../../core/event/origin.js'
import type { Splitting } from '../../../core/options/multiline-options.js'
import { LowWaterMark } from '../../../engine/flow/low-water-mark.js'
import { closeSync, fstatSync, orNone, orUnknown } from '../../../lib/files/disk/disk.js'
import type { Frame, LineSplitter } from '../../../lib/lines/line-splitter.js'
import type { KnownBeginnings } from '../beginnings.js'
import { formatOf } from '../compression.js'
import type { Remote } from '../discovery/remote.js'
import {
  begins,
  FINGERPRINT_BYTES,
  type Fingerprint,
  fingerprint,
  fingerprintAt,
  fingerprintBefore,
  firstBytes,
  type Identity,
  isBlind,
  isCopyOnly,
  isGoneKey,
  isOther,
  same,
  startsWith,
  tailOf,
} from '../identity.js'
import { type KnownContext, KnownFile } from '../known/known-file.js'
import type { Lineage } from '../lineage.js'
import { type Content, type Position, positionsIn, readFrom } from '../positions.js'
import { ON_THE_WAY } from '../rotation/copy.js'
import { mayBeAt } from '../rotation/names.js'
import type { Mark } from '../rotation/trail.js'
import { Trail } from '../rotation/trail.js'
import type { Entry, Original } from '../saved.js'
import { Portion } from './portion.js'
import { SparseRange } from './sparse-range.js'

export const READ_BYTES = 512 * 1024

export interface TailerContext extends KnownContext {
  readonly grown: Set<Tailer>
  readonly splitting: Splitting
  readonly remote: Remote
  /** Counter of pieces of over-long lines. */
  readonly pieces: { value: number }
  /** Scratch memory: the bytes before a portion, then the portion's first bytes. One portion is read at a time. */
  readonly before: Buffer
  readonly beginnings: KnownBeginnings<Tailer>
  /** Called when a batch was given back. The file is then read again from its committed position. */
  onErrored(tailer: Tailer): void
  /** Called after a truncation. `read`: number of bytes read; `unread`: number of bytes seen but not read. */
  onTruncated(path: string, read: number, unread: number): void
  onHole(path: string, bytes: number): void
}

/**
 * Reads one file, creates batches of its lines, and tracks what was delivered. Invariants: while the file only grows,
 * every byte is in exactly one batch, in order. Each read also covers the bytes before its portion and compares their
 * fingerprint, because the fingerprint differs after a truncation. A position is never within an undelivered line. An
 * open file is identified by its inode, which is not reused while the file is open.
 */
class OwnTailer extends KnownFile {
  /** Whether the reader has the file in its queue. The queue manages the links. */
  previous: this | undefined
  next: this | undefined
  list: unknown
  /** Set if the unfinished part of the file was dropped to save memory or a descriptor. This part ends at `at`. */
  parked: { readonly at: number; readonly inLine: boolean } | undefined
  /** When the last new byte was read, on the monotonic clock. */
  grownAt: number
  /** Since when lines wait for another event that is unfinished. */
  holdsSince = Number.POSITIVE_INFINITY
  readonly trail: Trail
  fd: number | undefined
  /** How far the file was read, and the fingerprint of the bytes before that. */
  at: number
  tail: Fingerprint
  /** The files whose events have the same file name. */
  lineage: Lineage<Tailer> | undefined
  /** The next file, if it took the parts of a line from the end of this file. Undefined after their delivery. */
  successor: Tailer | undefined
  readonly #context: TailerContext
  #closing = false
  /** `lookedAt` and the changes when the last read began. The portion may be taken much later. */
  #readSince = 0
  #readChanges = 0
  readonly #portion: Portion
  readonly #start: number
  #furthest: number
  #hole: SparseRange
  #content: Content
  /** The position at the end of the last batch. */
  #delivered: Position
  #positions: LowWaterMark<Position>
  #splitter: LineSplitter
  /** How many pieces of this splitter `context.pieces` already includes. */
  #pieces = 0
  /** The beginning of the first line, if it was taken from the end of the previous file. Kept until it is delivered. */
  #parts: Parts | undefined
  /** Everything before this offset was in the file when reading began, or when reading resumed after a stall. */
  #backlogEnd = 0
  /** The file's modification time when a check last showed that the file continues what was read. */
  #verified = -1

  constructor(path: string, stat: Identity, origin: Origin, start: Position, context: TailerContext) {
    super(path, stat, origin, context)
    this.grownAt = context.clock.now()
    this.trail = new Trail(start.marks, mark => context.beginnings.addMark(this, mark))
    this.#context = context
    this.#portion = new Portion(context.clock, context.remote)
    this.#content = start.content
    this.#delivered = start
    this.at = start.offset
    this.#start = start.offset
    this.#furthest = start.offset
    this.tail = start.tail
    this.#hole = new SparseRange(start.offset)
    this.#positions = new LowWaterMark(start, context.onChanged)
    this.#splitter = context.splitting.splitter(start.continues, start.carry, start.offset)
  }

  get reading(): boolean {
    return this.#portion.reading
  }

  /** Whether `read` was called, and `take` was not called after that. */
  get hasPortion(): boolean {
    return this.#portion.isBegun
  }

  /** Whether the file at `path`, which has the inode of this file, may be this file. An open file keeps its inode. */
  mayBe(path: string, stat: BigIntStats): boolean {
    const { path: before, origin } = this
    const names = { path: before, ...(origin.path !== undefined && { file: origin.path }) }
    return this.isOpen || (!isOther(stat, this.birth) && mayBeAt(path, names, isBlind(this, stat)))
  }

  get isOpen(): boolean {
    return this.fd !== undefined || this.copy?.isLost === false
  }

  /** Whether the copy was read to its end, so no more bytes follow. */
  get isOver(): boolean {
    return this.copy?.endsAt(this.at) === true
  }

  get isQueued(): boolean {
    return this.list !== undefined
  }

  get isBehind(): boolean {
    return this.order === 'behind' || this.order === 'behind-checked'
  }

  /** Whether an earlier file must be read first, or another copy. */
  get waits(): boolean {
    return (this.isBehind && this.earlier.some(({ isQueued }) => isQueued)) || this.copy?.waits === true
  }

  join(lineage: Lineage<Tailer>): void {
    this.lineage = lineage
  }

  get earlier(): readonly Tailer[] {
    return this.lineage?.before(this) ?? []
  }

  get isBegun(): boolean {
    return this.at > this.#start
  }

  /** Whether nothing of the file has been read, in this run or before. */
  get isNew(): boolean {
    return this.end === 0
  }

  /** Bytes of the unfinished line or event. */
  get pending(): number {
    return this.#splitter.pending
  }

  /** Whether the unfinished part ends within a line. */
  get inLine(): boolean {
    return this.parked?.inLine ?? this.#splitter.inLine
  }

  /** How far the file was read, including an unfinished part that is no longer in memory. */
  protected get end(): number {
    return this.parked?.at ?? this.at
  }

  /** The number of bytes that were seen in the file and are not in a batch. */
  get unread(): number {
    // Of a file that was seen only compressed, the size is uncertain: it was read from the end of a damaged file.
    if (this.isOver && (this.copy?.cut === undefined || isCopyOnly(this.key))) return this.pending
    return Math.max(0, this.size - this.#delivered.offset)
  }

  get head(): Fingerprint {
    return this.#content.head
  }

  #setHead(head: Fingerprint): void {
    if (!same(head, this.#content.head)) this.#context.onChanged()
    this.#content.head = head
    this.#context.beginnings.setHead(this, head)
  }

  get unsettled(): boolean {
    return this.#positions.unsettled
  }

  get committed(): Position {
    return this.#positions.mark
  }

  open(fd: number): void {
    this.fd = fd
    this.#verified = -1
  }

  /** Closes the file after the current read. An unfinished line is read again later. */
  close(): void {
    this.#closing = this.reading
    if (this.#closing) return
    this.copy?.close()
    if (this.fd !== undefined) {
      closeSync(this.fd)
      this.fd = undefined
      this.park()
    }
    this.#portion.free(this.#splitter)
  }

  /** Call when the file is not read for now. Another file may have to be read first, and wait for the inflater. */
  pause(): void {
    if (!this.reading) this.copy?.pause()
  }

  /** Drops an unfinished line from memory. It is read again when the file grows or is unparked. */
  park(): void {
    if (this.pending === 0) return
    const parked = { at: this.at, inLine: this.inLine }
    this.#goTo(this.#delivered)
    this.parked = parked
  }

  unpark(): void {
    this.parked = undefined
  }

  /** Releases the descriptor after the open file was truncated. An unfinished line is kept. */
  override truncated(): void {
    super.truncated()
    this.fd = undefined
    // Drop a larger size, because it may belong to the new content.
    this.size = Math.max(this.at, this.sureSize)
  }

  moveTo(path: string, stat: BigIntStats, fd: number): void {
    // A copy may lack bytes that were read of its original.
    if (stat.size < this.head.bytes) this.#setHead(fingerprintAt(fd, 0, Number(stat.size)))
    this.setFile(path, stat)
    this.look(stat)
    this.open(fd)
  }

  #goTo(position: Position): void {
    this.parked = undefined
    this.#delivered = position
    ;[this.#content, this.at, this.tail] = [position.content, position.offset, position.tail]
    this.#hole = new SparseRange(position.offset)
    this.#portion.leave(this.#splitter)
    this.#splitter = this.#context.splitting.splitter(position.continues, position.carry, position.offset)
    this.#pieces = 0
    this.holdsSince = Number.POSITIVE_INFINITY
    this.#putParts()
  }

  /** Whether the file ends within a line that may continue in the next file. */
  get hasParts(): boolean {
    return this.#context.splitting.joinsParts && !this.parked && this.pending > 0 && !this.inLine
  }

  /**
   * Takes the parts of a line from the end of the previous file, because the line may continue in this file. Returns
   * the previous file.
   */
  takeParts(): Tailer | undefined {
    const before = this.earlier.at(-1)
    if (!this.isNew || this.#parts || !before?.hasParts) return undefined
    this.#parts = before.giveParts(this)
    this.#putParts()
    return before
  }

  /** Gives the parts to `successor`. Until the parts are settled, the committed position stays before these parts. */
  giveParts(successor: Tailer): Parts {
    const bytes = this.#splitter.take()
    const settle = this.#positions.add(this.#deliver(this.at, this.tail))
    this.successor = successor
    return {
      bytes,
      settle: () => {
        this.successor = undefined
        settle()
      },
    }
  }

  loseParts(): void {
    this.#parts = undefined
    this.#context.onErrored(this)
  }

  #putParts(): void {
    if (!this.#parts || this.at > 0) return
    const { bytes } = this.#parts
    bytes.copy(this.#splitter.reserve(bytes.length, 0))
    this.#splitter.commit(bytes.length)
  }

  /** Goes back to the committed position, so that everything after it is read again. */
  rewind(): void {
    const { mark } = this.#positions
    this.#positions = new LowWaterMark(mark, this.#context.onChanged)
    // The next file may take the end of this file when it was read again, however long ago it was read first.
    this.#furthest = mark.offset
    this.#goTo(mark)
    // The parts that the next file took are read again. So the next file is read again, too, and takes them again.
    const { successor } = this
    this.successor = undefined
    successor?.loseParts()
    this.#context.grown.add(this)
  }

  /** Like `look`, but gets the size and the time from the open descriptor. After an error, the next read reports it. */
  glance(): boolean {
    const stat = orNone(() => fstatSync(this.fd!))
    if (!stat) return true
    const { size, mtimeMs } = stat
    this.uid = stat.uid
    this.sees(size)
    return size !== this.end || mtimeMs !== this.#verified
  }

  /** Marks all bytes seen so far as backlog. */
  fellBehind(): void {
    this.#backlogEnd = Math.max(this.#backlogEnd, this.size)
  }

  /** The number of bytes left to read from the open file. Negative if its content differs from what was read. */
  left(): number {
    if (this.copy) return this.isOver || this.copy.isLost || this.copy.isRefused ? 0 : READ_BYTES
    if (this.parked) {
      this.size = fstatSync(this.fd!).size
      // If the file has no matching name, it gets no more data. Its last line must then be in memory to be delivered.
      if (this.size === this.parked.at && this.awaySince === undefined) return 0
      this.parked = undefined
    }
    // At the last check, the file had enough bytes for a whole portion. If they are gone now, the read detects that.
    if (this.size - this.at >= READ_BYTES) return this.size - this.at
    const { size, mtimeMs } = fstatSync(this.fd!)
    if (size < this.size) return -1
    this.sees(size)
    if (size === this.at && size > 0 && this.#verified !== mtimeMs) {
      // The file was modified but did not grow. Either this change was already read, or the content differs.
      if (!this.#tailMatches()) return -1
    }
    this.#verified = mtimeMs
    // The first bytes of this unread file are known. If the file is now shorter than these bytes, it has different
    // content.
    return this.at === 0 && size < this.#content.head.bytes ? -1 : size - this.at
  }

  #tailMatches(): boolean {
    return same(fingerprintAt(this.fd!, this.at - this.tail.bytes, this.at), this.tail)
  }

  /** Reads the head of an unread file, which identifies the file after it is gone. */
  learnHead(): void {
    if (this.at > 0 || this.fd === undefined || this.#content.head.bytes === FINGERPRINT_BYTES) return
    const first = firstBytes(this.fd)
    // With these bytes, the next start would read a compressed file as lines.
    if (this.isUncompared && formatOf(first)) return
    // The file was truncated after the last look. Keep the old head, because the next read compares with it.
    if (!begins(first, this.#content.head)) return
    this.#setHead(fingerprint(first, 0, first.length))
    this.trail.begin(first)
  }

  /** Call before the stop. The next start needs the size to count lost bytes, and the first bytes to find a copy. */
  lookOnceMore(): void {
    if (this.fd !== undefined && !this.copy) orUnknown(() => this.holds())
  }

  /** Remembers where a copy of the file ends, to recognize it after a truncation. `markIn`: finds its last mark. */
  noteCopy(size: number, markIn: (size: number) => Mark | undefined): void {
    const mark = size < Math.max(this.at, this.head.bytes) ? markIn(size) : undefined
    if (mark?.offset === size) this.trail.insert(mark)
    else if (size > this.at) this.trail.expect(size)
  }

  /** Whether the open file still contains what was read and has not become shorter. */
  holds(): boolean {
    const { head } = this.#content
    const { size } = fstatSync(this.fd!)
    const isSame = same(fingerprintAt(this.fd!, 0, head.bytes), head) && this.#tailMatches()
    if (!isSame || size < this.size) return false
    this.sees(size)
    this.learnHead()
    this.becomesSure(size)
    return true
  }

  /**
   * Whether the open file was truncated before it was read to its end. While a destination is blocked, the file is not
   * read. Without this check, each further rotation would then leave another unknown copy.
   */
  get isOverwritten(): boolean {
    if (this.fd === undefined || this.reading || this.copy) return false
    const { size } = fstatSync(this.fd)
    // A file that was read to its end is compared at the next read.
    return !(size === this.at && size === this.size) && !this.holds()
  }

  /** False if this is unknown. */
  get unlinked(): boolean {
    return this.fd !== undefined && orUnknown(() => fstatSync(this.fd!).nlink) === 0
  }

  /** Whether nothing of the file was read, and it begins like a compressed file. */
  get beginsCompressed(): boolean {
    return this.at === 0 && this.fd !== undefined && orUnknown(() => formatOf(firstBytes(this.fd!))) !== undefined
  }

  /** Undelivered bytes of the open file. After a restart, these bytes can be read only if the file is found again. */
  get undelivered(): number {
    return this.fd === undefined ? 0 : Math.max(0, fstatSync(this.fd).size - this.committed.offset)
  }

  /** Starts to read the next `left` bytes or a part of them. Pass the result (a length or an error) to `take`. */
  read(left: number): Promise<number | Error> | number | Error {
    const portion = this.#portion
    this.#readSince = this.#context.lookedAt()
    this.#readChanges = this.changes
    // A batch must not mix backlog and newer bytes.
    const most = this.at < this.#backlogEnd ? Math.min(left, this.#backlogEnd - this.at) : left
    const room = portion.begin(this.#splitter, Math.min(most, READ_BYTES), this.at)
    const before = this.#context.before.subarray(0, this.tail.bytes)
    if (this.copy) return portion.wait(this.copy.read(before, room, this.at, this.tail).catch(error => error as Error))
    const parts = before.length === 0 ? [room] : [before, room]
    return portion.read(this.path, this.fd!, parts, this.at - before.length)
  }

  /** Turns the lines completed by the portion into a batch. If `result` is an error of `read`, throws it. */
  take(result: number | Error, out: Output): EventBatch | 'truncated' | undefined {
    try {
      if (!this.#portion.isOf(this.#splitter) || result === ON_THE_WAY) return undefined
      if (result instanceof Error) throw result
      const { bytes, hash } = this.tail
      if (result < bytes || fingerprint(this.#context.before, 0, bytes).hash !== hash) return 'truncated'
      if (!this.copy && !this.#isSure(result - bytes)) return 'truncated'
      return this.#commit(result - bytes, out)
    } finally {
      this.abandon()
    }
  }

  /** Whether the `length` bytes of the last read continue the earlier content. The bytes before them must match. */
  #isSure(length: number): boolean {
    const { head } = this.#content
    if (this.at === 0 && !startsWith(this.fd!, this.#portion.room, length, head)) return false
    // This position was restored within a batch and has no tail.
    const lacksTail = this.at > 0 && this.tail.bytes === 0
    if (lacksTail && !same(fingerprintAt(this.fd!, 0, head.bytes), head)) return false
    // The file is shorter than before, so it has new content. Only its first bytes are the same as before.
    if (length < this.#portion.room.length && fstatSync(this.fd!).size < this.size) return false
    this.becomesSure(this.size, this.#readSince, this.#readChanges)
    return true
  }

  abandon(): void {
    this.#portion.end()
    if (this.#closing) this.close()
  }

  #commit(length: number, out: Output): EventBatch | undefined {
    const { room } = this.#portion
    if (length === 0) return undefined
    const { before } = this.#context
    const first = room.copy(before, this.tail.bytes, 0, Math.min(length, FINGERPRINT_BYTES))
    const known = this.tail.bytes
    if (known === this.at && this.#content.head.bytes < FINGERPRINT_BYTES) {
      this.#setHead(fingerprint(before, 0, Math.min(known + first, FINGERPRINT_BYTES)))
    }
    const hole = this.#hole.skip(this.fd, room, length, bytes => this.#context.onHole(this.path, bytes))
    const tailBefore = (end: number) => fingerprintBefore(room, end, before, known)
    const tailAtEnd = tailBefore(length)
    // A copy of a part of the file is recognized regardless of the sizes of the reads.
    const end = this.at + length
    this.trail.add(this.at, end, room.subarray(0, length), offset => tailBefore(offset - this.at))
    if (hole > 0) room.copyWithin(0, hole, length)
    const { mayBeMarked } = this.#splitter
    const frame = this.#splitter.commit(length - hole)
    this.at += length
    if (this.at > this.#furthest) {
      this.#furthest = this.at
      this.grownAt = this.#context.clock.now()
    }
    const { pending, holdsOthers } = this.#splitter
    if (!holdsOthers) this.holdsSince = Number.POSITIVE_INFINITY
    else if (frame || this.holdsSince === Number.POSITIVE_INFINITY) this.holdsSince = this.#context.clock.now()
    this.tail = tailAtEnd
    if (!frame) {
      // The file holds only a byte order mark, which is not part of an event.
      const isMark = pending === 0 && mayBeMarked && !this.#splitter.mayBeMarked
      if (isMark) this.#positions.add(this.#deliver(this.at, this.tail))()
      return undefined
    }
    // If the portion began with a hole, the bytes after it were moved. Only the frame's bytes are at the right place.
    let tail = pending === 0 ? tailAtEnd : hole > 0 ? tailOf(frame) : tailBefore(length - pending)
    // If the frame ends before the portion ends, `tail` may cover too few bytes. The frame then has more bytes.
    const most = Math.min(frame.bytes, this.at - pending)
    if (tail.bytes < Math.min(most, FINGERPRINT_BYTES)) tail = tailOf(frame)
    return this.#batch(frame, tail, out)
  }

  /** Sets the offset at which the next batch begins. `tail`: the fingerprint of the bytes before it. */
  #deliver(offset: number, tail: Fingerprint): Position {
    const { continues, carry } = this.#splitter
    return (this.#delivered = { offset, continues, carry, tail, content: this.#content })
  }

  #batch(frame: Frame, tail: Fingerprint, out: Output): EventBatch {
    const splitter = this.#splitter
    this.#context.pieces.value += splitter.pieces - this.#pieces
    this.#pieces = splitter.pieces
    const isBehind = this.copy !== undefined || this.#delivered.offset < this.#backlogEnd
    const from = this.#delivered
    // The parts of a line that came from the earlier file are not in this file.
    const parts = from.offset === 0 ? this.#parts : undefined
    const to = this.#deliver(Math.max(0, this.at - splitter.pending), tail)
    const positionOf = positionsIn(frame, from, to)
    const positions = this.#positions
    const settle = positions.add(to)
    const ack = out.ack((status, before = 0) => {
      if (status !== 'errored') {
        // If this file was rewound since, these parts are delivered again, or are no longer the parts of this file.
        if (parts && positions === this.#positions) {
          parts.settle()
          this.#parts = undefined
        }
        return settle()
      }
      if (positions !== this.#positions) return
      if (before > 0 && positionOf) settle(positionOf(before))
      this.#context.onErrored(this)
    })
    const batch = new EventBatch(frame, this.origin, this.#context.clock.wall(), ack, isBehind)
    if (!parts) batch.readFrom = readFrom(frame, to)
    return batch
  }

  /** Delivers the unfinished line or event as it is. */
  flush(out: Output): EventBatch | undefined {
    const frame = this.#splitter.flush()
    return frame && this.#batch(frame, this.tail, out)
  }

  /** Keeps only the memory needed for an unfinished line. Throws if nothing more of the file can be read. */
  releaseMemory(): void {
    this.#splitter.release()
  }

  /** Shows whether a copy's position is ahead of the committed position: see `isCopyAhead`. */
  get known(): Original {
    return { ...this.committed, head: this.head, claimed: this.claimed, marks: this.trail.marks }
  }

  /** The checkpoint entry of the file, at its committed position. */
  entry(): Entry {
    const { path, origin, birth, changedAt, uid, claimed, sureUntil, size } = this
    const { offset, continues, carry, tail, content } = this.committed
    const [dev, ino] = this.key.split(':', 2) as [string, string]
    const isGone = isGoneKey(this.key)
    const wasLong = this.longSince < this.#context.lookedAt()
    const marks = this.trail.saved(offset, content.head.bytes, wasLong)
    return {
      path,
      ...(this.target === path || dirname(this.target) === dirname(path) ? {} : { target: this.target }),
      ...(origin.path === path ? {} : { file: origin.path }),
      dev,
      ino,
      // Without a birth time, a time shows which compressed files may be copies of a file that was never read.
      birth: String(birth || (content.head.bytes === 0 ? changedAt : 0n)),
      ...(uid !== undefined && { uid }),
      offset,
      continues,
      ...(carry === 0 ? {} : { carry }),
      head: content.head,
      tail,
      reading: content.reading,
      ...(marks.length > 0 && { marks }),
      ...(isGone && { gone: true }),
      ...(claimed !== undefined && { claimed }),
      ...(sureUntil < this.#context.lookedAt() && { sure: sureUntil }),
      ...(isGone || size > offset ? { size } : {}),
    }
  }
}

/** Others read the fields of a file, and change them by the transitions. */
export interface Tailer extends Readonly<OwnTailer> {}
export const Tailer: new (...of: ConstructorParameters<typeof OwnTailer>) => Tailer = OwnTailer

/** The end of a file, which belongs to a line that continues in the next file. */
export interface Parts {
  readonly bytes: Buffer
  readonly settle: () => void
}
