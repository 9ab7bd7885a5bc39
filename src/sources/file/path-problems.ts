import type { BigIntStats } from 'node:fs'
import type { ComponentContext } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'

/** So many sweeps without it make a failure one of the past. */
const FORGET_SWEEPS = 10

/** Counts what could not be done with a path, and logs it once, until the path works again or fails in another way. */
export class PathProblems {
  readonly #context: ComponentContext
  readonly #open = new Map<string, { code: string; sweep: number; unread: boolean }>()
  /** The number of the sweep that is under way. */
  #sweep = 0

  constructor(context: ComponentContext) {
    this.#context = context
  }

  /** Paths that cannot be read or looked into now. */
  get unread(): number {
    let count = 0
    for (const { unread } of this.#open.values()) if (unread) count++
    return count
  }

  /** `kind` names the failure in the metrics. */
  failed(path: string, kind: 'open' | 'read' | 'list', error: unknown): void {
    this.#context.metrics.failed(kind)
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, true)) return
    this.#context.log.error(
      { code: 'SLUICE_FILE_UNREADABLE', file: path, cause: code, error: errorText(error) },
      'file cannot be read; it is tried again with every sweep',
    )
  }

  /** For a compressed copy: what comes behind the damage, or all of it, cannot be had. Logged and counted once. */
  damaged(path: string, error: unknown): void {
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, false)) return
    this.#context.metrics.failed('copy')
    this.#context.log.error(
      { code: 'SLUICE_COPY_DAMAGED', file: path, cause: code, error: errorText(error) },
      'compressed copy of a file cannot be read to its end; what may be left in it is not read',
    )
  }

  /** For what is no regular file. */
  skipped(path: string, stat: BigIntStats): void {
    const what = kindOf(stat)
    if (!this.#first(path, what, false)) return
    this.#context.log.warn({ file: path, what }, 'not a regular file, left alone')
  }

  /** A file that the source's own events are written to. */
  ownOutput(path: string): void {
    if (!this.#first(path, 'own output', false)) return
    const text =
      'this daemon writes events of this source to the file, so it is not read; add it to exclude, or write elsewhere'
    this.#context.log.warn({ code: 'SLUICE_OWN_OUTPUT', file: path }, text)
  }

  /** Whether it has not been logged yet. */
  #first(path: string, code: string, unread: boolean): boolean {
    const before = this.#open.get(path)
    this.#open.set(path, { code, sweep: this.#sweep, unread })
    return before?.code !== code
  }

  over(path: string): void {
    if (this.#open.size > 0 && this.#open.delete(path)) this.#context.log.info({ file: path }, 'file can be read now')
  }

  /** A sweep begins: what the last ones did not come across is forgotten. */
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
