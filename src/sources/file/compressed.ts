/** The first bytes of what gzip, zstd and xz write. */
const STARTS = ['\x1f\x8b\x08', '\x28\xb5\x2f\xfd', '\xfd7zXZ\0']
/** What follows the first four bytes of bzip2: a block, or the end of an empty file. */
const BZIP2 = ['1AY&SY', '\x17rE8P\x90']

/** Whether a file that begins with these bytes is compressed. */
export function isCompressed(first: Buffer): boolean {
  const text = first.toString('latin1', 0, 10)
  return STARTS.some(start => text.startsWith(start)) || (text.startsWith('BZh') && BZIP2.includes(text.slice(4)))
}
