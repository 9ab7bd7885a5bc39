import type { Splitting } from '../../../core/options/multiline-options.js'
import type { Clock } from '../../../lib/time.js'
import type { Remote } from '../discovery/remote.js'
import type { Tailer } from './tailer.js'

/** Maximum size of a read, in bytes. */
export const READ_BYTES = 512 * 1024

/** Shared state of a source's tailers. */
export interface TailerContext {
  readonly clock: Clock
  readonly splitting: Splitting
  /** Whether files are read on when they grow. */
  readonly follows: boolean
  readonly remote: Remote
  /** Counter of pieces of over-long lines. */
  readonly pieces: { value: number }
  /** Scratch memory for the bytes before a portion and its first bytes. One portion is read at a time. */
  readonly before: Buffer
  /** Called after a committed position moved. */
  onCommit(): void
  /** Called when a batch was given back: the file is read again from its committed position. */
  onErrored(tailer: Tailer): void
  /** Called after a truncation, with the number of bytes read and of bytes seen but not read. */
  onTruncated(path: string, read: number, unread: number): void
  /** Called when a hole at the beginning of the file was skipped. */
  onHole(path: string, bytes: number): void
}
