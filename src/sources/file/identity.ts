import { type BigIntStats, constants } from 'node:fs'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { closeSync, fstatSync, openSync, readSync, statSync, unlessSilent } from '../../lib/files/remote/guarded-fs.js'
import { type Frame, LINE_END } from '../../lib/lines/line-splitter.js'

/**
 * Which file is it? A device and an inode name it while it exists, but an inode is given away again, and a file may
 * be emptied and filled again. So beside them stand the time of birth, where the file system keeps one, and two
 * fingerprints: of the first bytes (head), and of the bytes before a position (tail).
 */

/** How many bytes a fingerprint covers at most. */
export const FINGERPRINT_BYTES = 1024

/** The hash of `bytes` bytes. */
export interface Fingerprint {
  readonly bytes: number
  readonly hash: number
}

export const NO_BYTES: Fingerprint = { bytes: 0, hash: 0 }

const scratch = Buffer.allocUnsafeSlow(FINGERPRINT_BYTES)

/** Of the bytes [start, end) of `bytes`. */
export function fingerprint(bytes: Buffer, start: number, end: number): Fingerprint {
  return start === end ? NO_BYTES : { bytes: end - start, hash: crc32(bytes.subarray(start, end)) }
}

/** Of the bytes before `portion[end]`. `before` has the `known` bytes before the portion, and its first bytes behind them. */
export function fingerprintBefore(portion: Buffer, end: number, before: Buffer, known: number): Fingerprint {
  if (end >= FINGERPRINT_BYTES) return fingerprint(portion, end - FINGERPRINT_BYTES, end)
  const to = Math.max(0, known + end)
  return fingerprint(before, Math.max(0, to - FINGERPRINT_BYTES), to)
}

/** Of the last bytes of a frame. */
export function tailOf({ chunk, length, starts, ends, flags }: Frame): Fingerprint {
  const end = ends[length - 1]! + (flags[length - 1]! & LINE_END)
  return fingerprint(chunk, Math.max(starts[0]!, end - FINGERPRINT_BYTES), end)
}

/** Of the file's bytes [start, end), or of as many as it has. At most FINGERPRINT_BYTES. */
export function fingerprintAt(fd: number, start: number, end: number): Fingerprint {
  return fingerprint(scratch, 0, readFully(fd, start, end))
}

/** As many as a fingerprint covers, or as there are. */
export function firstBytes(fd: number): Buffer {
  return Buffer.from(scratch.subarray(0, readFully(fd, 0, FINGERPRINT_BYTES)))
}

/** The last byte before `end`, or undefined. */
export function byteBefore(fd: number, end: number): number | undefined {
  return end > 0 && readFully(fd, end - 1, end) === 1 ? scratch[0] : undefined
}

function readFully(fd: number, start: number, end: number): number {
  let length = 0
  while (start + length < end) {
    const read = readSync(fd, scratch, length, end - start - length, start + length)
    if (read === 0) break
    length += read
  }
  return length
}

export function same(a: Fingerprint, b: Fingerprint): boolean {
  return a.bytes === b.bytes && a.hash === b.hash
}

/** Whether `head` is that of these bytes. */
export function startsWith(bytes: Buffer, length: number, head: Fingerprint): boolean {
  return same(fingerprint(bytes, 0, Math.min(length, head.bytes)), head)
}

/** What a file is known by while it exists. */
export function keyOf(stat: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${stat.dev}:${stat.ino}`
}

/** The part of a stat that identifies the file. */
export type Identity = Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>

/** Whether the file at `path` is the one of this key. */
export function leadsTo(path: string, key: string): boolean {
  try {
    return keyOf(statSync(path, { bigint: true })) === key
  } catch (error) {
    unlessSilent(error)
    return false
  }
}

/**
 * In place of a device and an inode: a file that was never seen but as a compressed copy. The time of the last change of
 * that stands for its time of birth.
 */
export const COPY_ONLY = { dev: '0', ino: '0' }

/** Whether a file of this key is known as a compressed copy only. */
export function isCopyOnly(key: string): boolean {
  return key.startsWith(`${COPY_ONLY.dev}:${COPY_ONLY.ino}:`)
}

let gone = 0

/** What a file is known by that is gone while something of it is still to be read: its inode is another's by now. */
export function goneKey(key: string): string {
  return `${key}:${++gone}`
}

/** Opens the file at `path`; undefined when that is not the one of this key and birth. */
export function openKnown(path: string, key: string, birth: bigint, births: BirthTimes): number | undefined {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  let isKnown = false
  try {
    const stat = fstatSync(fd, { bigint: true })
    isKnown = keyOf(stat) === key && stat.isFile() && !births.differ(stat, birth, path)
    return isKnown ? fd : undefined
  } finally {
    if (!isKnown) closeSync(fd)
  }
}

/** What is remembered of a file, and compared with what is found later. */
export interface Remembered {
  /** Nanoseconds since the epoch, 0 where unknown. */
  readonly birth: bigint
  readonly offset: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
}

/** `same`: go on at the offset. `replaced`: another file with the inode of one that is gone. `truncated`: emptied since. */
export type Verdict = 'same' | 'replaced' | 'truncated'

/** Compares the open file with what is remembered under its inode. */
export function judge(fd: number, stat: BigIntStats, remembered: Remembered, births: BirthTimes): Verdict {
  if (births.differ(stat, remembered.birth)) return 'replaced'
  const { offset, head, tail } = remembered
  if (stat.size < offset) return 'truncated'
  if (!same(fingerprintAt(fd, 0, head.bytes), head)) return offset === 0 ? 'replaced' : 'truncated'
  return same(fingerprintAt(fd, offset - tail.bytes, offset), tail) ? 'same' : 'truncated'
}

/**
 * Knows which devices keep times of birth. Where a file system has none, the time of the last change stands in its
 * place, or zero: only a device that was seen with another value is believed.
 */
export class BirthTimes {
  readonly #kept = new Set<bigint>()

  learn(stat: BigIntStats): void {
    if (stat.birthtimeNs !== 0n && stat.birthtimeNs !== stat.ctimeNs) this.#kept.add(stat.dev)
  }

  kept(stat: BigIntStats): boolean {
    return this.#kept.has(stat.dev)
  }

  /** Whether the file, found at `path`, cannot be the one that was born at `birth`. */
  differ(stat: BigIntStats, birth: bigint, path?: string): boolean {
    if (birth === 0n || stat.birthtimeNs === birth) return false
    // A folder has changed since its own birth, so it shows at once whether its file system keeps them.
    if (path !== undefined && !this.kept(stat)) {
      const folder = statSync(dirname(path), { bigint: true, throwIfNoEntry: false })
      if (folder) this.learn(folder)
    }
    return this.kept(stat)
  }
}
