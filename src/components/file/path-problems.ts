import type { BigIntStats } from 'node:fs'
import type { ComponentContext } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'

/** Number of sweeps after which a problem that did not recur is forgotten. */
const FORGET_SWEEPS = 10

/** Counts problems with paths. Logs each once, until the path works again or fails differently. */
export class PathProblems {
  readonly #context: ComponentContext
  readonly #open = new Map<string, { code: string; sweep: number; unread: boolean }>()
  /** The number of the current sweep. */
  #sweep = 0
  readonly #compressed: { value: number }

  constructor(context: ComponentContext) {
    this.#context = context
    this.#compressed = context.metrics.counter(
      'sluice_file_compressed_total',
      'Compressed files that match `include`, are not copies of files that were read, and were skipped.',
    )
  }

  /** Number of paths that cannot be read or listed now. */
  get unread(): number {
    let count = 0
    for (const { unread } of this.#open.values()) if (unread) count++
    return count
  }

  /** `kind` is the metric label of the failure. */
  failed(path: string, kind: 'open' | 'read' | 'list', error: unknown): void {
    this.#context.metrics.failed(kind)
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, true)) return
    this.#context.log.error(
      { code: 'SLUICE_FILE_UNREADABLE', file: path, cause: code, error: errorText(error) },
      'cannot read file; retrying with every sweep',
    )
  }

  /** Reports a compressed copy that cannot be read, completely or after damaged data. Logged and counted once. */
  damaged(path: string, error: unknown): void {
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, false)) return
    this.#context.metrics.failed('copy')
    this.#context.log.error(
      { code: 'SLUICE_COPY_DAMAGED', file: path, cause: code, error: errorText(error) },
      'cannot read a compressed copy of a file to its end; skipping the rest',
    )
  }

  /** Reports a path that is not a regular file. */
  skipped(path: string, stat: BigIntStats): void {
    const what = kindOf(stat)
    if (!this.#first(path, what, false)) return
    this.#context.log.warn({ file: path, what }, 'not a regular file; ignoring it')
  }

  /** Reports a compressed file. Only the first one is logged. */
  compressed(path: string): void {
    if (this.#compressed.value++ > 0) return
    const text = `skipped a compressed file, and skipping others: only uncompressed files are read. Add them to exclude, such as exclude: ['*.gz']`
    this.#context.log.warn({ code: 'SLUICE_FILE_COMPRESSED', file: path }, text)
  }

  /** Reports a file that events of this source are written to. */
  ownOutput(path: string): void {
    if (!this.#first(path, 'own output', false)) return
    const text =
      'ignoring a file to which this daemon writes events of this source; add it to exclude, or write elsewhere'
    this.#context.log.warn({ code: 'SLUICE_OWN_OUTPUT', file: path }, text)
  }

  /** Whether the problem has not been logged yet. */
  #first(path: string, code: string, unread: boolean): boolean {
    const before = this.#open.get(path)
    this.#open.set(path, { code, sweep: this.#sweep, unread })
    return before?.code !== code
  }

  over(path: string): void {
    if (this.#open.size > 0 && this.#open.delete(path)) this.#context.log.info({ file: path }, 'file can be read now')
  }

  /** Starts a sweep, and forgets problems that did not recur in the last ones. */
  nextSweep(): void {
    for (const [path, { sweep }] of this.#open) if (sweep < this.#sweep - FORGET_SWEEPS) this.#open.delete(path)
    this.#sweep++
  }
}

function kindOf(stat: BigIntStats): string {
  if (stat.isDirectory()) return 'folder'
  if (stat.isFIFO()) return 'FIFO'
  return stat.isSocket() ? 'socket' : 'device'
}
