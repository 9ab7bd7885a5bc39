import type { Transform } from 'node:stream'
import zlib from 'node:zlib'

/** Recognizes the formats of files that are not read as they are, by their first bytes or names. */

/** An encoding of text that is not read. */
export type Wide = 'UTF-16' | 'UTF-32'
export type Format = 'gzip' | 'zstd' | 'xz' | 'bzip2' | Wide

/** A byte order mark of UTF-32 may begin with one of UTF-16. */
const STARTS: Readonly<Record<Exclude<Format, 'bzip2'>, readonly string[]>> = {
  gzip: ['\x1f\x8b\x08'],
  zstd: ['\x28\xb5\x2f\xfd'],
  xz: ['\xfd7zXZ\0'],
  'UTF-32': ['\xff\xfe\0\0', '\0\0\xfe\xff'],
  'UTF-16': ['\xff\xfe', '\xfe\xff'],
}
/** These bytes follow the first four bytes of bzip2: a block, or the end of an empty file. */
const BZIP2 = ['1AY&SY', '\x17rE8P\x90']
const EXTENSIONS: Readonly<Record<string, Format>> = { '.gz': 'gzip', '.zst': 'zstd' }
const EXTENSION = /\.(gz|zst)$/

/** Files of zstd with a larger window (`zstd --long`) are refused, because inflating them takes so much memory. */
const ZSTD_WINDOW_LOG = 23

/** The format of a file that begins with these bytes; undefined: its lines are read as they are. */
export function formatOf(first: Buffer): Format | undefined {
  const text = first.toString('latin1', 0, 10)
  for (const [format, starts] of Object.entries(STARTS))
    if (starts.some(start => text.startsWith(start))) return format as Format
  return text.startsWith('BZh') && BZIP2.includes(text.slice(4)) ? 'bzip2' : undefined
}

export function formatOfName(name: string): Format | undefined {
  return EXTENSIONS[EXTENSION.exec(name)?.[0] ?? '']
}

export function uncompressedName(name: string): string {
  return name.replace(EXTENSION, '')
}

export function isWide(format: string | undefined): format is Wide {
  return format === 'UTF-16' || format === 'UTF-32'
}

export function isReadable(format: Format): boolean {
  return format === 'gzip' || (format === 'zstd' && 'createZstdDecompress' in zlib)
}

/** `bytesWritten`: the number of bytes that were inflated. Bytes after the last member or frame do not count. */
export type Inflater = Transform & { readonly bytesWritten: number }

/** Creates a stream that inflates. Its output comes in parts of at most `chunkSize` bytes. */
export function createInflater(format: Format, chunkSize: number): Inflater {
  if (format === 'gzip') return zlib.createGunzip({ chunkSize })
  const { createZstdDecompress, constants } = zlib as unknown as {
    readonly createZstdDecompress: (options: object) => Inflater
    readonly constants: Readonly<Record<'ZSTD_d_windowLogMax', number>>
  }
  return createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } })
}

/** Whether the error means damaged content, and not a failed system call. */
export function isOfContent(error: unknown): boolean {
  return /^(Z_|ZSTD_)/.test(String((error as NodeJS.ErrnoException).code))
}
