import { errorCode } from '../../../core/errors.js'
import { NewerFormat } from '../../../core/unreadable.js'
import { sizeOfAll } from '../../../lib/formats/parts.js'
import type { Amount } from '../counters.js'
import type { BufferFile, BufferFolder } from '../disk-buffer/files.js'
import {
  HEAD_SIZE,
  isWhole,
  type LogPosition,
  placeAfter,
  RECORD_MARK,
  readRecordHead,
  seal,
} from '../disk-buffer/segments.js'

/**
 * The file of an object in a spool: a title, a record with the facts about the object, and one record for each write.
 * The record of a write contains the length of its ids (4 bytes), the ids of its events, and content. The contents of
 * all these records, in order, are the object. Records have the same headers as in a disk buffer. The checksums and
 * places in the headers show where the file is damaged and how many events are lost. If the last record of an open
 * object is damaged, this record counts as an unfinished write.
 */

/** Facts about an object, determined by its first event. */
export interface ObjectFacts {
  /** The object's name at the receiver. */
  readonly key: string
  /** The partition of the object's events, as the destination names it. */
  readonly partition: string
  /** The format of the object's content. Only content of the same format may be appended. */
  readonly format: string
  readonly contentType: string
  /** When the object was opened, wall clock in milliseconds. */
  readonly openedAt: number
}

interface Piece {
  readonly at: number
  readonly size: number
}

export interface ObjectSurvey {
  /** Undefined if the facts are damaged. The object then cannot be sent. */
  readonly facts: ObjectFacts | undefined
  readonly pieces: readonly Piece[]
  readonly size: number
  /** Where the last whole record ends: as an offset in the file, and as a place. */
  readonly end: number
  readonly place: LogPosition
  /** Start and end of the last record that has a whole header. Earlier records were acknowledged. */
  readonly last: { readonly from: LogPosition; readonly to: LogPosition }
  /** The events in whole records. The other events before `place` are damaged. */
  readonly held: Amount
}

const FORMAT = 1
const TITLE = Buffer.from(`sluice object ${FORMAT}\n`)
const START: LogPosition = { event: 0, byte: 0 }
const WINDOW = 64 * 1024
const LONGEST_NOTE = 4096
/** A file up to this size is read once, before its first attempt, and stays in memory during this attempt. */
const MOST_IN_MEMORY = 10 * 1024 * 1024
/** Size in bytes of the field that holds the length of the ids. */
const LENGTH = 4
const NAME = /^[\da-f]{16}\.(object|closed)$/

export const objectName = (id: string) => `${id}.object`
export const isObject = (name: string) => NAME.test(name)
/** Whether the object with this file name may have been sent. If so, nothing may be appended to the object. */
export const isClosed = (name: string) => name.endsWith('.closed')

/** A record to be written, in parts. The first part has free bytes for the header of the record. */
export type Framed = readonly [head: Buffer, ids: Buffer, ...content: Buffer[]]

export function framed(ids: Buffer, content: readonly Buffer[]): Framed {
  const head = Buffer.alloc(HEAD_SIZE + LENGTH)
  head.writeUInt32LE(ids.length, HEAD_SIZE)
  return [head, ids, ...content]
}

/**
 * Reads a file up to `size` and checks every byte. `onIds` receives the ids of each record. The memory of these ids is
 * overwritten when the next record is read.
 */
export async function survey(
  file: Pick<BufferFile, 'read'>,
  size: number,
  onIds: (ids: Buffer) => void = () => {},
): Promise<ObjectSurvey> {
  const read = async (at: number, length: number) => {
    const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, size - at)))
    return bytes.subarray(0, await file.read(bytes, at))
  }
  let memory = Buffer.alloc(0)
  const readRecord = async (at: number, length: number) => {
    if (memory.length < length) memory = Buffer.allocUnsafeSlow(length)
    return memory.subarray(0, await file.read(memory.subarray(0, length), at))
  }
  const title = (await read(0, TITLE.length)).toString('latin1')
  const format = Number(/^sluice object (\d)\n$/.exec(title)?.[1] ?? FORMAT)
  if (format > FORMAT) throw new NewerFormat(format, FORMAT)
  const pieces: Piece[] = []
  const held = { events: 0, bytes: 0 }
  let facts: ObjectFacts | undefined
  let place = START
  let last = { from: START, to: START }
  let end = 0
  let total = 0
  for (let at = TITLE.length; at < size; ) {
    const head = readRecordHead(await read(at, HEAD_SIZE), 0)
    const content = at + HEAD_SIZE
    if (head && head.place.event >= last.to.event) last = { from: head.place, to: placeAfter(head) }
    if (!head || content + head.size > size) {
      at = await nextMark(read, at + 1, size)
      continue
    }
    const record = await readRecord(content, head.size)
    const isFirst = at === TITLE.length
    at = content + head.size
    // A record that lies before `place` is a repetition.
    if (!isWhole(head, record) || head.place.event < place.event) continue
    end = at
    place = placeAfter(head)
    if (isFirst) facts = JSON.parse(record.toString()) as ObjectFacts
    else {
      const before = LENGTH + record.readUInt32LE(0)
      onIds(record.subarray(LENGTH, before))
      pieces.push({ at: content + before, size: head.size - before })
      total += head.size - before
      held.events += head.events
      held.bytes += head.bytes
    }
  }
  return { facts, pieces, size: total, end, place, last, held }
}

export async function countSpooled(folder: BufferFolder): Promise<number> {
  let events = 0
  for (const name of (await folder.list()).filter(isObject)) {
    const file = await folder.open(name)
    events += await survey(file, await file.size())
      .then(({ held }) => held.events)
      .finally(() => file.close())
  }
  return events
}

/** Whether a folder contains no objects, not even damaged ones. */
export async function holdsNothing(folder: BufferFolder): Promise<boolean> {
  return (await folder.list()).every(name => /\.(sent|note)$/.test(name))
}

export async function writeIds(folder: BufferFolder, name: string, ids: readonly Buffer[]): Promise<void> {
  const framedIds = ids.flatMap(one => [framed(one, [])[0].subarray(HEAD_SIZE), one])
  const record = Buffer.concat([Buffer.alloc(HEAD_SIZE), ...framedIds])
  seal(record, START, 0, 0)
  await folder.remove(name).catch(() => {})
  const file = await folder.create(name)
  try {
    await file.write([record], 0)
    await file.sync()
  } finally {
    await file.close().catch(() => {})
  }
  await folder.sync()
}

/** Reads what `writeIds` wrote. Returns [] if the file is damaged. */
export async function readIds(folder: BufferFolder, name: string): Promise<Buffer[]> {
  const file = await folder.open(name)
  try {
    const bytes = Buffer.alloc(await file.size())
    await file.read(bytes, 0)
    const head = readRecordHead(bytes, 0)
    const record = bytes.subarray(HEAD_SIZE)
    const all: Buffer[] = []
    if (!head || !isWhole(head, record)) return all
    for (let at = 0; at < record.length; ) {
      const from = at + LENGTH
      at = from + record.readUInt32LE(at)
      all.push(record.subarray(from, at))
    }
    return all
  } finally {
    await file.close().catch(() => {})
  }
}

async function contentOf(file: BufferFile, size: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size)
  return bytes.subarray(0, await file.read(bytes, 0))
}

const inMemory = (bytes: Buffer): Pick<BufferFile, 'read'> => ({ read: async (into, at) => bytes.copy(into, 0, at) })

/** The next record mark at or after `from`; `size` if there is none. */
async function nextMark(
  read: (at: number, length: number) => Promise<Buffer>,
  from: number,
  size: number,
): Promise<number> {
  for (let at = from; at < size; at += WINDOW) {
    const found = (await read(at, WINDOW + RECORD_MARK.length - 1)).indexOf(RECORD_MARK)
    if (found >= 0) return at + found
  }
  return size
}

/**
 * An object that is being written or waits to be sent. When `append` resolves, the record and the name of the file are
 * synced. If `append` rejects, the record is not part of the object. Its bytes are cut off by `finish` or earlier.
 */
export class ObjectFile {
  name: string
  readonly facts: ObjectFacts
  /** When the object was opened, by the monotonic clock. */
  readonly openedAt: number
  size = 0
  /** The end of the last synced record in the file. */
  end = 0
  /** The object's events. Until `finish`, this amount includes damaged events. */
  held: Amount = { events: 0, bytes: 0 }
  /** Whether a write failed. If so, the content of the file after `end` is unknown, so nothing may be appended. */
  isBroken = false
  isBusy = false
  /** State that only the sender uses. */
  progress: unknown
  /** Ids of the object's records. Set by `finish`. */
  ids: readonly Buffer[] = []
  readonly #folder: BufferFolder
  #place = START
  #pieces: readonly Piece[] | undefined
  /** The whole file, from `finish` to `release`, so that it need not be read again. */
  #content: Buffer | undefined
  /** Whether the name of the closed object is synced, so that the object stays closed after a power failure. */
  #isClosed = false

  constructor(folder: BufferFolder, name: string, facts: ObjectFacts, openedAt: number) {
    this.#folder = folder
    this.name = name
    this.facts = facts
    this.openedAt = openedAt
  }

  /** The object in a file of an earlier run. Its event count includes damaged events until `finish` reports them. */
  static found(
    folder: BufferFolder,
    name: string,
    { size, end, place, facts }: ObjectSurvey & { facts: ObjectFacts },
    openedAt: number,
  ): ObjectFile {
    const file = new ObjectFile(folder, name, facts, openedAt)
    file.size = size
    file.end = end
    file.held = { events: place.event, bytes: place.byte }
    file.#place = place
    // A kill may have left data after the last record. This data is cut off before the next write.
    file.isBroken = !isClosed(name)
    return file
  }

  /** The memory of the record must not change before the promise settles. */
  async append([head, ids, ...content]: Framed, events: number, bytes: number): Promise<void> {
    const isNew = this.end === 0
    seal(head, this.#place, events, bytes, [ids, ...content])
    const record = [head, ids, ...content]
    const parts = isNew ? [TITLE, this.#factsRecord(), ...record] : record
    const file = await (isNew ? this.#folder.create(this.name) : this.#folder.open(this.name)).catch(error => {
      // Another process removed the file.
      if (!isNew && errorCode(error) === 'ENOENT') this.isBroken = true
      throw error
    })
    try {
      await file.write(parts, this.end)
      await file.sync()
      if (isNew) await this.#folder.sync()
    } catch (error) {
      this.isBroken = true
      if (isNew) await this.#folder.remove(this.name).catch(() => {})
      else await file.truncate(this.end).catch(() => {})
      throw error
    } finally {
      await file.close().catch(() => {})
    }
    this.end += sizeOfAll(parts)
    this.size += sizeOfAll(content)
    this.#place = placeAfter({ place: this.#place, events, bytes })
    this.held = { events: this.held.events + events, bytes: this.held.bytes + bytes }
  }

  /** Cuts off the bytes after the last whole record, because they must not become part of the object. */
  async cut(): Promise<void> {
    const file = await this.#folder.open(this.name)
    try {
      if ((await file.size()) > this.end) await file.truncate(this.end)
      // A failed append may have truncated the file without a sync.
      await file.sync()
      this.isBroken = false
    } finally {
      await file.close().catch(() => {})
    }
  }

  /**
   * Determines the content to send, which is the content of the whole records. Resolves with the number of events that
   * were damaged after they were written. Call `finish` before `read`.
   */
  async finish(): Promise<Amount> {
    if (this.isBroken) await this.cut()
    if (!this.#isClosed) await this.#close()
    // Opens the file again before each request, because somebody may have removed it between two attempts.
    const file = await this.#folder.open(this.name)
    try {
      if (this.#pieces) return { events: 0, bytes: 0 }
      const ids: Buffer[] = []
      const content = this.end <= MOST_IN_MEMORY ? await contentOf(file, this.end) : undefined
      const source = content ? inMemory(content) : file
      const { pieces, size, held } = await survey(source, this.end, one => ids.push(Buffer.from(one)))
      const missing = { events: this.held.events - held.events, bytes: this.held.bytes - held.bytes }
      this.#content = content
      this.#pieces = pieces
      this.ids = ids
      this.size = size
      this.held = held
      return missing
    } finally {
      await file.close().catch(() => {})
    }
  }

  async #close(): Promise<void> {
    if (!isClosed(this.name)) {
      const closed = this.name.replace(/\w+$/, 'closed')
      await this.#folder.rename(this.name, closed)
      this.name = closed
    }
    await this.#folder.sync()
    this.#isClosed = true
  }

  /** Returns the content from `from` to `to`, in parts. */
  async read(from: number, to: number): Promise<Buffer[]> {
    const content = this.#content
    if (content) return this.#ranges(from, to).map(({ at, size }) => content.subarray(at, at + size))
    const bytes = Buffer.allocUnsafe(to - from)
    const file = await this.#folder.open(this.name)
    try {
      let filled = 0
      for (const { at, size } of this.#ranges(from, to)) {
        const into = bytes.subarray(filled, (filled += size))
        if ((await file.read(into, at)) < size) throw new Error(`${this.name} became shorter`)
      }
      return [bytes]
    } finally {
      await file.close().catch(() => {})
    }
  }

  /** Where the content from `from` to `to` is in the file. */
  #ranges(from: number, to: number): Piece[] {
    let start = 0
    return this.#pieces!.flatMap(({ at, size }) => {
      const [first, last] = [Math.max(from, start), Math.min(to, start + size)]
      const piece = { at: at + first - start, size: last - first }
      start += size
      return first < last ? [piece] : []
    })
  }

  /** Call it after an attempt to send. Releases the content that `finish` read. */
  release(): void {
    this.#content = undefined
  }

  /** The sender's note about the object; undefined if there is none. */
  async readNote(): Promise<string | undefined> {
    try {
      const file = await this.#folder.open(this.#note)
      try {
        const bytes = Buffer.alloc(LONGEST_NOTE)
        return bytes.toString('utf8', 0, await file.read(bytes, 0)) || undefined
      } finally {
        await file.close()
      }
    } catch {
      return undefined
    }
  }

  async writeNote(text: string): Promise<void> {
    await this.#folder.remove(this.#note).catch(() => {})
    try {
      const file = await this.#folder.create(this.#note)
      await file.write([Buffer.from(text)], 0).finally(() => file.close())
    } catch {
      // Without the note, the only effect is more work for the receiver.
    }
  }

  async remove(): Promise<void> {
    await this.#folder.remove(this.#note).catch(() => {})
    await this.#folder.remove(this.name)
    await this.#folder.sync()
  }

  get #note(): string {
    return `${this.name}.note`
  }

  #factsRecord(): Buffer {
    const record = Buffer.concat([Buffer.alloc(HEAD_SIZE), Buffer.from(JSON.stringify(this.facts))])
    seal(record, START, 0, 0)
    return record
  }
}
