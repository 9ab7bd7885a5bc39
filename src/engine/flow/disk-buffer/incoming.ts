import type { Linked } from '../../../lib/linked-list.js'
import type { LogPosition } from './segments.js'

/** A reading position: before a record, or within damaged data. */
export interface RecordCursor {
  readonly segment: number
  readonly offset: number
}

export interface Incoming extends Linked<Incoming> {
  readonly record: Buffer
  readonly place: LogPosition
  readonly events: number
  readonly bytes: number
  /** How many events at the beginning of the record do not count, since an earlier run settled these events. */
  readonly skipped?: number
  /** Where the record begins in its segment. */
  readonly start: RecordCursor
  /**
   * Where reading continues: after the record, or at the start of the record if some of its events remain to be read.
   */
  readonly cursor: RecordCursor
  /** Whether this empty record stands for records that an earlier run settled. */
  readonly isSettled?: boolean
  /** Releases the record's memory if it is pooled. Call it once, when the record is no longer needed. */
  readonly release?: (() => void) | undefined
}

/**
 * Consecutive records. The range may contain only a part of its first and last record. If it contains only a part of
 * the last record, the cursor is at the start of that record.
 */
export type Range = Pick<Incoming, 'place' | 'events' | 'bytes' | 'cursor'>
