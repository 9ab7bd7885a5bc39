import fs, { type BigIntStats, constants } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { type Encoding, encodeLines, RawEncoder } from '../../core/codecs/encode.js'
import { DeliveryError, errorCode } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Reach } from '../../core/options/reach.js'
import { DirectCalls } from '../../lib/files/direct-calls.js'
import type { FileSystems } from '../../lib/files/disk/file-systems.js'
import { irregular } from '../../lib/files/regular-file.js'
import { type Clock, sleep } from '../../lib/time.js'
import { keyOf } from './identity.js'

/** The system calls, replaceable for tests. */
export const calls = {
  open: promisify(fs.open),
  stat: (path: string) => promisify(fs.stat)(path, { bigint: true }),
  identify: (fd: number) => promisify(fs.fstat)(fd, { bigint: true }),
  fstat: promisify(fs.fstat),
  /** The size of an open file. Synchronous, because switching to another thread would take longer than a write. */
  size: async (fd: number) => fs.fstatSync(fd).size,
  read: promisify(fs.read),
  /** Returns a promise or, with `writeDirectly`, the result. */
  writev: promisify(fs.writev) as (fd: number, parts: readonly NodeJS.ArrayBufferView[]) => Written | Promise<Written>,
  ftruncate: promisify(fs.ftruncate),
  fdatasync: promisify(fs.fdatasync),
  close: promisify(fs.close),
}
export type FileCalls = typeof calls
interface Written {
  readonly bytesWritten: number
}

/**
 * Wraps the calls. On a remote file system, the wrapped calls run in another thread, one at a time, and only while the
 * file system responds. `close` waits until it responds, because the descriptor would otherwise stay open.
 */
export function callsThrough(fileSystems: FileSystems, path: string, os: FileCalls): FileCalls {
  const through = Object.entries(os).map(([name, call]) => [
    name,
    (...args: unknown[]) => fileSystems.run(path, () => (call as (...args: unknown[]) => Promise<unknown>)(...args)),
  ])
  const size = async (fd: number) =>
    fileSystems.mountOf(path) === undefined ? await os.size(fd) : (await fileSystems.run(path, () => os.fstat(fd))).size
  const close = (fd: number) => fileSystems.runWhenAnswered(path, () => os.close(fd))
  return { ...(Object.fromEntries(through) as FileCalls), size, close }
}

/** If a write took more milliseconds than this, it waited for a disk. */
const SLOW_MS = 4

/** Returns the same calls, but `writev` runs in this thread while `isLocal` is true and writes are not slow. */
export function writeDirectly(os: FileCalls, isLocal: () => boolean, clock: Clock): FileCalls {
  const direct = new DirectCalls(clock, SLOW_MS)
  const writev = (fd: number, parts: readonly NodeJS.ArrayBufferView[]) => {
    const began = isLocal() ? direct.begin() : undefined
    if (began === undefined) return os.writev(fd, parts)
    try {
      return { bytesWritten: fs.writevSync(fd, parts) }
    } finally {
      direct.end(began)
    }
  }
  return { ...os, writev }
}

/** O_NONBLOCK and O_NOCTTY ensure that opening does not block, even if the file was replaced after the check. */
const FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY
const LF = 0x0a
const NEWLINE = Buffer.from('\n')
/** An origin that no event has. So an unfinished line of this origin is terminated before the next event is written. */
const FOREIGN = {}
const COMPARED_BYTES = 64 * 1024
/** If an unfinished line has not grown for this time, it is treated as torn. */
const REST_MS = 20
/** Maximum number of waits for an unfinished line that keeps growing. */
const MOST_LOOKS = 10

export interface AppendOptions {
  readonly path: string
  readonly encoding: Encoding
  readonly mode: number
  /** If the file ends with an unfinished line: whether the first event may continue it. */
  readonly continues: boolean
  /** If set, all links in `path` are resolved. Opening fails if the path then leads to another file. */
  readonly reach?: Reach | undefined
}

/** A write failed, and part of it could not be removed from the file. */
export class TornWrite extends Error {
  readonly bytes: number
  constructor(bytes: number, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.bytes = bytes
  }
}

/**
 * An open regular file to which events are appended. In this process, only one `append` or `sync` may run at a time per
 * file (see `key`); other processes may append at any time. Invariants:
 * - Every write is in append mode and never overwrites data.
 * - The bytes of a failed write are removed only if the file still ends with exactly these bytes. Otherwise they stay,
 *   and the next write first terminates the torn line.
 * - Data of other writers, or data reported as written by `sync` or `append`, is never removed.
 */
export class AppendedFile {
  /** Device and inode: equal for all descriptors of the file. */
  readonly key: string
  readonly stats: BigIntStats
  readonly #fd: number
  readonly #folder: string
  /** Whether the file's directory entry was synced. */
  #isNameSafe = false
  readonly #encoding: Encoding
  readonly #calls: FileCalls
  #raw = new RawEncoder()
  /** The size of the file after the last write by this object. If the file has another size, its end is unknown. */
  #end = -1
  /** From here to `#end`, the file contains only unsynced bytes of this object. */
  #unsynced = -1
  /** Whether the next event may continue an unfinished line at the end. */
  #continues: boolean

  /** Opens or creates the file. If it is not a regular file, throws a DeliveryError and does not open the file. */
  static async open(options: AppendOptions, os: FileCalls = calls): Promise<AppendedFile> {
    const { path, mode, reach } = options
    const there = await os.stat(path).catch(error => {
      if (errorCode(error) !== 'ENOENT') throw error
    })
    if (there) refuseIrregular(path, there)
    const fd = await os.open(path, reach ? FLAGS | constants.O_NOFOLLOW : FLAGS, mode)
    try {
      const stats = await os.identify(fd)
      refuseIrregular(path, stats)
      if (reach) await reach.confirm(path, await os.fstat(fd))
      return new AppendedFile(fd, stats, options, os)
    } catch (error) {
      // Does not wait, because closing may take long on a remote file system.
      void os.close(fd).catch(() => {})
      throw error
    }
  }

  private constructor(fd: number, stats: BigIntStats, { path, encoding, continues }: AppendOptions, os: FileCalls) {
    this.#fd = fd
    this.key = keyOf(stats)
    this.stats = stats
    this.#folder = dirname(path)
    this.#encoding = encoding
    this.#continues = continues
    this.#calls = os
  }

  async append(request: readonly EventBatch[]): Promise<void> {
    const size = await this.#calls.size(this.#fd).catch(error => {
      this.#end = -1
      throw error
    })
    if (size !== this.#end) {
      const end = await this.#restingEnd(size)
      this.#raw = new RawEncoder(end.isTorn, this.#continues ? undefined : FOREIGN)
      this.#end = end.size
      this.#unsynced = end.size
    }
    this.#continues = false
    // Encodes with a copy, because a write that is removed again must not change the state of the encoder.
    const raw = this.#raw.copy()
    const encoding = this.#encoding
    const encoded = encoding === 'raw' ? raw.encode(request) : encodeLines(encoding, request)
    const { parts, bytes } = encoded
    if (bytes === 0) return
    const lead = encoding !== 'raw' && raw.isOpen ? NEWLINE.length : 0
    if (lead > 0) parts.unshift(NEWLINE)
    try {
      await this.#write(parts, lead + bytes)
    } finally {
      encoded.release?.()
    }
    this.#raw = encoding === 'raw' ? raw : new RawEncoder()
  }

  /** Resolves when all appended bytes are on disk. If syncing fails, removes the unsynced bytes. */
  async sync(): Promise<void> {
    try {
      await this.#calls.fdatasync(this.#fd)
      if (!this.#isNameSafe) await this.#syncFolder()
      this.#isNameSafe = true
      this.#unsynced = this.#end
    } catch (error) {
      const end = this.#end
      // The file must be opened again, because a later sync of this descriptor may succeed although bytes are lost.
      this.#end = -1
      const isEnd = (await this.#calls.fstat(this.#fd).catch(() => undefined))?.size === end
      if (isEnd && this.#unsynced < end) await this.#calls.ftruncate(this.#fd, this.#unsynced).catch(() => {})
      throw error
    }
  }

  async #syncFolder(): Promise<void> {
    let folder: number | undefined
    try {
      folder = await this.#calls.open(this.#folder, constants.O_RDONLY)
      await this.#calls.fdatasync(folder)
    } catch (error) {
      // Not every file system can sync a folder, and a folder without read permission cannot be synced.
      if (!['EINVAL', 'ENOTSUP', 'EACCES'].includes(errorCode(error) ?? '')) throw error
    } finally {
      if (folder !== undefined) void this.#calls.close(folder).catch(() => {})
    }
  }

  /** Whether the file must be opened again, because the descriptor may be unusable after a failure. */
  get isLost(): boolean {
    return this.#end === -1
  }

  close(): Promise<void> {
    return this.#calls.close(this.#fd)
  }

  async #write(parts: readonly Buffer[], bytes: number): Promise<void> {
    const before = this.#end
    let written = 0
    let writes = 0
    try {
      for (let left = parts; left.length > 0; left = behind(parts, written)) {
        const { bytesWritten } = await this.#calls.writev(this.#fd, left)
        if (bytesWritten === 0) throw new Error(`only ${written} of ${bytes} bytes were written`)
        written += bytesWritten
        writes++
      }
      // Another process may have written between two parts.
      if (writes > 1 && (await this.#calls.fstat(this.#fd)).size !== before + bytes) {
        throw new Error('another process wrote to the file between two parts of a write')
      }
      this.#end = before + bytes
    } catch (error) {
      this.#end = -1
      if (written > 0 && !(await this.#remove(parts, before, written).catch(() => false))) {
        throw new TornWrite(written, error)
      }
      this.#end = before
      throw error
    }
  }

  /** If the file ends with the beginning of a failed write, removes these bytes. Returns whether it removed them. */
  async #remove(parts: readonly Buffer[], before: number, written: number): Promise<boolean> {
    const isEnd = async () => (await this.#calls.fstat(this.#fd)).size === before + written
    if (!(await isEnd()) || !(await this.#has(parts, before, written)) || !(await isEnd())) return false
    await this.#calls.ftruncate(this.#fd, before)
    return true
  }

  /** Whether the file contains the first `count` bytes of `parts` at `start`. */
  async #has(parts: readonly Buffer[], start: number, count: number): Promise<boolean> {
    const found = Buffer.allocUnsafe(Math.min(count, COMPARED_BYTES))
    let at = 0
    for (const part of parts) {
      for (let from = 0; from < part.length && at < count; ) {
        const size = Math.min(part.length - from, count - at, found.length)
        const { bytesRead } = await this.#calls.read(this.#fd, found, 0, size, start + at)
        if (bytesRead === 0 || found.compare(part, from, from + bytesRead, 0, bytesRead) !== 0) return false
        from += bytesRead
        at += bytesRead
      }
    }
    return true
  }

  /**
   * Waits while another process may be writing the last line. Returns the size and whether the last line is unfinished.
   */
  async #restingEnd(size: number): Promise<{ readonly size: number; readonly isTorn: boolean }> {
    for (let looks = 0, before = -1; ; looks++) {
      if (!(await this.#isTorn(size))) return { size, isTorn: false }
      if (size === before || looks === MOST_LOOKS) return { size, isTorn: true }
      before = size
      await sleep(REST_MS)
      size = await this.#calls.size(this.#fd)
    }
  }

  async #isTorn(size: number): Promise<boolean> {
    if (size === 0) return false
    const last = Buffer.alloc(1)
    const { bytesRead } = await this.#calls.read(this.#fd, last, 0, 1, size - 1)
    return bytesRead === 1 && last[0] !== LF
  }
}

function behind(parts: readonly Buffer[], count: number): Buffer[] {
  let first = 0
  let skipped = count
  while (first < parts.length && skipped >= parts[first]!.length) skipped -= parts[first++]!.length
  const left = parts.slice(first)
  if (skipped > 0) left[0] = left[0]!.subarray(skipped)
  return left
}

function refuseIrregular(path: string, stats: BigIntStats): void {
  const why = irregular(stats)
  if (why === undefined) return
  throw new DeliveryError(`cannot write ${path}: ${why}`, { failure: 'hold', reason: 'not_a_regular_file' })
}
