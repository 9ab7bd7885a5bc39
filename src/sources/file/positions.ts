import { type Fingerprint, NO_BYTES } from './identity.js'

/** The content of a file between two truncations. Its head grows until it covers FINGERPRINT_BYTES. */
export interface Content {
  head: Fingerprint
}

/** A position in a file: the end of what was delivered, never within an undelivered line. */
export interface Position {
  readonly offset: number
  /** Whether the beginning of the line at this position was delivered. */
  readonly continues: boolean
  /** State of the splitter at this position (lib/lines/record-splitter.ts). */
  readonly carry: number
  /** Fingerprint of the bytes before `offset`. */
  readonly tail: Fingerprint
  readonly content: Content
}

/** The beginning of a file with unknown content. */
export function emptyStart(): Position {
  return { offset: 0, continues: false, carry: 0, tail: NO_BYTES, content: { head: NO_BYTES } }
}
