import { type Fingerprint, NO_BYTES } from './identity.js'

/** What a file holds between two truncations. Its head grows until it covers the first bytes. */
export interface Content {
  head: Fingerprint
}

/** A place in a file: the end of what was delivered, never inside of an undelivered line. */
export interface Position {
  readonly offset: number
  /** The beginning of the line that continues here was delivered. */
  readonly continues: boolean
  /** What the splitter has to know of what was before (lib/lines/record-splitter.ts). */
  readonly carry: number
  /** Of the bytes before `offset`. */
  readonly tail: Fingerprint
  readonly content: Content
}

/** The beginning of a file, of which nothing is known yet. */
export function emptyStart(): Position {
  return { offset: 0, continues: false, carry: 0, tail: NO_BYTES, content: { head: NO_BYTES } }
}
