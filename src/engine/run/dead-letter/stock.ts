import { type FileHandle, open, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../../../core/errors.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { savedDocument } from '../state/checkpoints.js'

export const SOURCE = 'dead_letters'
/** The folder from which the events of the dead-letter file `path` are resent. */
export const folderOf = (path: string) => `${path}.sending`
/** The file with the events that are being sent. */
export const recordsIn = (folder: string) => join(folder, 'records.ndjson')
/** The file in which the source saves its positions. */
const POSITIONS = join('checkpoints', `${SOURCE}.json`)
/**
 * Events that a daemon rejected during a resend. They stay in this file until they are appended to the file that will
 * become the dead-letter file.
 */
export const mergingIn = (folder: string) => join(folder, 'merging.ndjson')
/** All files with rejected events of the dead-letter file `path`. */
export function deadLetterFiles(path: string): string[] {
  const folder = folderOf(path)
  return [path, recordsIn(folder), mergingIn(folder), join(folder, 'dead-letter', basename(path))]
}

/** The offset in bytes before which all records are settled; 0 if the progress is damaged. Throws StateUnreadable. */
export async function doneIn(folder: string): Promise<number> {
  const { size } = await stat(recordsIn(folder))
  const { done } = (savedDocument(join(folder, POSITIONS)) ?? {}) as { done?: unknown }
  return typeof done === 'number' && done >= 0 && done <= size ? done : 0
}

/** Removes the progress of an earlier call that sent all its records. */
export async function forgetDone(folder: string): Promise<void> {
  await rm(join(folder, dirname(POSITIONS)), { recursive: true, force: true })
  await syncFolder(folder)
}

const LF = 0x0a
const PIECE = 256 * 1024
/** How many bytes at the beginning of a record contain its times. */
const HEAD = 128
const TIMES = /^\{"time":"([^"]+)"(?:,"since":"([^"]+)")?/

interface Counted {
  readonly inode: number
  /** When the file was created. Tells it from a later file with the same inode. */
  readonly birth: number
  /** Offset at which counting began. */
  readonly from: number
  /** End of the last complete record. */
  readonly end: number
  readonly events: number
  /** When the first record's event was first rejected, wall clock in milliseconds. */
  readonly oldest: number
}

/**
 * Counts a destination's rejected events that are in data_dir now, even if an earlier daemon wrote them or `sluice
 * resend` moved them. Counts only on demand, and reads only new records.
 */
export class DeadLetterStock {
  readonly #path: string
  #counted: ReadonlyMap<string, Counted> | undefined
  #refreshing: Promise<void> | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** Undefined before the first count. */
  get events(): number | undefined {
    return this.#counted && [...this.#counted.values()].reduce((sum, { events }) => sum + events, 0)
  }

  /** When the oldest event was rejected, wall clock in milliseconds; undefined if there is none. */
  get oldest(): number | undefined {
    const times = [...(this.#counted?.values() ?? [])].flatMap(({ events, oldest }) => (events > 0 ? oldest : []))
    return times.length > 0 ? Math.min(...times) : undefined
  }

  /** Updates the counts with all changes since the last call. If a file cannot be read, its last count is kept. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #refresh(): Promise<void> {
    const folder = folderOf(this.#path)
    // An error may mean no more than that another process is changing the file.
    const done = await doneIn(folder).catch(() => 0)
    const counted = new Map<string, Counted>()
    for (const path of deadLetterFiles(this.#path)) {
      const known = this.#counted?.get(path)
      try {
        counted.set(path, await count(path, path === recordsIn(folder) ? done : 0, known))
      } catch (error) {
        if (errorCode(error) !== 'ENOENT' && known) counted.set(path, known)
      }
    }
    this.#counted = counted
  }
}

/** Counts the records of a file from `from` on. Resumes after the last count of the same file. */
async function count(path: string, from: number, known: Counted | undefined): Promise<Counted> {
  const { ino, birthtimeMs: birth, size } = await stat(path)
  const isSame = known?.inode === ino && known.birth === birth && known.from === from && known.end <= size
  const same = isSame ? known : undefined
  if (same?.end === size) return same
  const file = await open(path, 'r')
  try {
    let { end, events } = same ?? { end: from, events: 0 }
    const oldest = same && same.events > 0 ? same.oldest : await timeAt(file, from)
    const piece = Buffer.allocUnsafe(PIECE)
    for (let at = end; ; ) {
      const { bytesRead } = await file.read(piece, 0, PIECE, at)
      if (bytesRead === 0) break
      const read = piece.subarray(0, bytesRead)
      for (let found = read.indexOf(LF); found >= 0; found = read.indexOf(LF, found + 1)) {
        events++
        end = at + found + 1
      }
      at += bytesRead
    }
    return { inode: ino, birth, from, end, events, oldest }
  } finally {
    await file.close()
  }
}

/** Time when the event at `from` was first rejected or, if that is unknown, when the file was modified. */
async function timeAt(file: FileHandle, from: number): Promise<number> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD), 0, HEAD, from)
  const [, again = '', first = again] = TIMES.exec(buffer.toString('latin1', 0, bytesRead)) ?? []
  const time = Date.parse(first)
  return Number.isNaN(time) ? (await file.stat()).mtimeMs : time
}
