import { newReading } from '../../core/event/event-id.js'
import type { ReadFrom } from '../../core/event/sent-offsets.js'
import { type Frame, LINE_END } from '../../lib/lines/line-splitter.js'
import { type Fingerprint, NO_BYTES } from './identity.js'
import type { Mark } from './rotation/match.js'

/** The content of a file between two truncations. Its head grows until it covers FINGERPRINT_BYTES. */
export interface Content {
  head: Fingerprint
  /** Known by nothing else that was read: of ids of events. */
  readonly reading: string
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
  /** Some places before it that are known from a run before. */
  readonly marks?: readonly Mark[]
}

/** The beginning of a file with unknown content. */
export function emptyStart(): Position {
  return { offset: 0, continues: false, carry: 0, tail: NO_BYTES, content: { head: NO_BYTES, reading: newReading() } }
}

/**
 * Finds the position of the event of a frame that so many bytes come before, if its lines lie in the file as they do in
 * the frame; undefined: they do not. It has no fingerprint, since its bytes may be gone by then; the head still tells
 * whether the file is the same. The frame itself is not kept: its columns are gone by then, too.
 */
export function positionsIn(frame: Frame, from: Position, to: Position): ((before: number) => Position) | undefined {
  const { length, bytes, isRun } = frame
  if (!isRun || length === 1 || from.continues || to.offset - from.offset !== bytes) return undefined
  const { content } = to
  return before => ({ offset: from.offset + before, continues: false, carry: 0, tail: NO_BYTES, content })
}

/** Where a frame that ends at `to` begins in the content, if its lines lie there as they do in the frame. */
export function readFrom({ bytes, length, starts, ends, flags, read }: Frame, to: Position): ReadFrom | undefined {
  const span = ends[length - 1]! + (flags[length - 1]! & LINE_END) - starts[0]!
  // What is skipped, such as a byte order mark, is before its first line.
  return read || span !== bytes ? undefined : { reading: to.content.reading, at: to.offset - bytes }
}
