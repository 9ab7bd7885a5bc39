import type { Splitting } from '../../../core/options/multiline-options.js'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'
import type { Tailer } from './tailer.js'

/** Bytes of one read at most. */
export const READ_BYTES = 256 * 1024

/** What the tailers of one source share. */
export interface TailerContext {
  readonly clock: Clock
  readonly splitting: Splitting
  readonly remote: Remote
  /** Pieces of over-long lines, counted. */
  readonly pieces: { value: number }
  /** Takes the bytes before a portion, and its first bytes behind them: one portion is read at a time. */
  readonly before: Buffer
  /** A committed position moved. */
  onCommit(): void
  /** A batch was given back: the file is read again from its committed position. */
  onErrored(tailer: Tailer): void
  /** The file was emptied, or emptied and filled again, when so many bytes of it were read, and so many more were seen. */
  onTruncated(path: string, read: number, unread: number): void
  /** A hole of so many bytes at the beginning of the file was skipped. */
  onHole(path: string, bytes: number): void
}
