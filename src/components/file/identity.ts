import type { BigIntStats } from 'node:fs'
import { crc32 } from 'node:zlib'
import { isMissing } from '../../core/errors.js'
import { readSync, statSync, unlessSilent } from '../../lib/files/disk/disk.js'
import { type Frame, LINE_END } from '../../lib/lines/line-splitter.js'

/**
 * The identity of files. A device and an inode identify a file while it exists, but inodes are reused, and a file may
 * be truncated and rewritten. Therefore two fingerprints are compared, too: that of the first bytes (head) and that of
 * the bytes before a position (tail). If the file system stores birth times, they are also compared.
 */

export const FINGERPRINT_BYTES = 1024

/** A file must share at least this many bytes with another file to count as its copy, unless both names show it. */
export const ALIKE_BYTES = 64

/** The time of a file that was just written may be this much before the wall clock. */
export const CLOCK_MS = 10

/** The hash of `bytes` bytes. */
export interface Fingerprint {
  readonly bytes: number
  readonly hash: number
}

export const NO_BYTES: Fingerprint = { bytes: 0, hash: 0 }

const scratch = Buffer.allocUnsafeSlow(FINGERPRINT_BYTES)

export function fingerprint(bytes: Buffer, start: number, end: number): Fingerprint {
  return start === end ? NO_BYTES : { bytes: end - start, hash: crc32(bytes.subarray(start, end)) }
}

/**
 * Fingerprint of the bytes before `portion[end]`. `before` holds the last `known` bytes before the portion, then the
 * portion's first bytes.
 */
export function fingerprintBefore(portion: Buffer, end: number, before: Buffer, known: number): Fingerprint {
  if (end >= FINGERPRINT_BYTES) return fingerprint(portion, end - FINGERPRINT_BYTES, end)
  const to = Math.max(0, known + end)
  return fingerprint(before, Math.max(0, to - FINGERPRINT_BYTES), to)
}

/** The fingerprint of the last bytes that were read for a frame. */
export function tailOf({ chunk, length, starts, ends, flags, read }: Frame): Fingerprint {
  if (read) return fingerprint(read.chunk, Math.max(read.start, read.end - FINGERPRINT_BYTES), read.end)
  const end = ends[length - 1]! + (flags[length - 1]! & LINE_END)
  return fingerprint(chunk, Math.max(starts[0]!, end - FINGERPRINT_BYTES), end)
}

/** The fingerprint of a file's bytes [start, end), as far as they exist; at most FINGERPRINT_BYTES bytes. */
export function fingerprintAt(fd: number, start: number, end: number): Fingerprint {
  return fingerprint(scratch, 0, readFully(fd, start, end))
}

export function firstBytes(fd: number): Buffer {
  return Buffer.from(scratch.subarray(0, readFully(fd, 0, FINGERPRINT_BYTES)))
}

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

/** Whether `first`, the first bytes of a file, begin with the bytes of `head`. */
export function begins(first: Buffer, { bytes, hash }: Fingerprint): boolean {
  return first.length >= bytes && fingerprint(first, 0, bytes).hash === hash
}

/**
 * Whether an open file begins with this head, which may be longer than `length`. `bytes`: the file's first `length`
 * bytes.
 */
export function startsWith(fd: number, bytes: Buffer, length: number, head: Fingerprint): boolean {
  return same(length < head.bytes ? fingerprintAt(fd, 0, head.bytes) : fingerprint(bytes, 0, head.bytes), head)
}

/** Identifies a file while it exists. */
export function keyOf(stat: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${stat.dev}:${stat.ino}`
}

/** The owner is undefined if an earlier version saved the position. */
export type Identity = Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'> & { readonly uid: bigint | number | undefined }

/** The device, inode, birth time and owner of a file, as they are saved. */
export function identityOf({ dev, ino, birthtimeNs, uid }: BigIntStats) {
  return { dev: String(dev), ino: String(ino), birth: String(birthtimeNs), uid: Number(uid) }
}

/** Whether the file cannot be the file with this birth time. Either time is 0 if the file system does not store it. */
export function isOther({ birthtimeNs }: Pick<BigIntStats, 'birthtimeNs'>, birth: bigint): boolean {
  return birthtimeNs !== birth && birthtimeNs !== 0n && birth !== 0n
}

/** Whether only the inode and the name identify the file of which `head` is known. */
export function isBlind({ head }: { readonly head: Fingerprint }, { birthtimeNs }: Pick<BigIntStats, 'birthtimeNs'>) {
  return head.bytes === 0 && birthtimeNs === 0n
}

/**
 * Whether the file at `path` has this key. If the path cannot be examined, returns `ifUnknown`. If that is undefined,
 * throws if the file system does not respond.
 */
export function leadsTo(path: string, key: string, ifUnknown?: boolean): boolean {
  try {
    return keyOf(statSync(path, { bigint: true })) === key
  } catch (error) {
    if (ifUnknown === undefined) unlessSilent(error)
    return ifUnknown === true && !isMissing(error)
  }
}

/**
 * Replaces the device and inode of a file that was seen only as a compressed copy. The modification time of the copy is
 * used as the birth time of the file.
 */
export const COPY_ONLY = { dev: '0', ino: '0' }

/** Whether the key belongs to a file that was seen only as a compressed copy. */
export function isCopyOnly(key: string): boolean {
  return key.startsWith(`${COPY_ONLY.dev}:${COPY_ONLY.ino}:`)
}

let gone = 0

/** A key for a file that is gone but not read completely. It is needed because the file's inode may be reused. */
export function goneKey(key: string): string {
  return isGoneKey(key) ? key : `${key}:${++gone}`
}

export function isGoneKey(key: string): boolean {
  return key.split(':').length > 2
}

/** Saved properties of a file, compared with a file found later. */
export interface Remembered {
  /** Nanoseconds since the epoch, 0 if unknown. */
  readonly birth: bigint
  readonly offset: number
  readonly head: Fingerprint
  readonly tail: Fingerprint
}

/** `same`: continue at the offset. `replaced`: a file that reuses the inode. `truncated`: truncated after the save. */
export type Verdict = 'same' | 'replaced' | 'truncated'

/** Compares the open file with the properties saved for its inode. */
export function judge(fd: number, stat: BigIntStats, remembered: Remembered): Verdict {
  if (isOther(stat, remembered.birth)) return 'replaced'
  const { offset, head, tail } = remembered
  if (stat.size < offset) return 'truncated'
  if (!same(fingerprintAt(fd, 0, head.bytes), head)) return offset === 0 ? 'replaced' : 'truncated'
  return same(fingerprintAt(fd, offset - tail.bytes, offset), tail) ? 'same' : 'truncated'
}
