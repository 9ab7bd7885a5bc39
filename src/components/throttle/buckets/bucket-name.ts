import { createHash } from 'node:crypto'

/** Maximum bytes of a name in UTF-8. Longer names are cut. */
const LONGEST = 256
/** Number of bytes of a long text that are kept in its name. */
const KEPT = 200
const DIGEST_LETTERS = 16

/** The common name of all buckets that are not listed by their own name. */
export const OTHER_NAME = '__other__'
/** The name of the default bucket where a text is needed. */
export const DEFAULT_NAME = '__default__'
const RESERVED = /^_+(?:other|default)__$/

/**
 * The name of a bucket for people and labels: the text of its key as valid Unicode of limited length. A long text
 * becomes its beginning and a digest of the whole. Texts like OTHER and DEFAULT get one more underscore in front.
 */
export function bucketName(text: string): string {
  const name = text.toWellFormed()
  if (RESERVED.test(name)) return `_${name}`
  if (name.length * 3 <= LONGEST) return name
  const bytes = Buffer.from(name)
  if (bytes.length <= LONGEST) return name
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, DIGEST_LETTERS)
  return `${textBeginning(bytes, KEPT)}…${digest}`
}

/** The text of at most the first `most` bytes of UTF-8. Leaves out a last character that would be incomplete. */
export function textBeginning(bytes: Buffer, most: number): string {
  let end = Math.min(bytes.length, most)
  // Bytes that continue a character are 10xxxxxx.
  if (end < bytes.length) while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
