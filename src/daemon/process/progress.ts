import { formatDuration, formatSize } from '../../lib/units.js'
import type { Io } from './command-line.js'

const DRAWN_EVERY_MS = 200
const BAR_WIDTH = 20
const LINE_START = '\r\x1b[K'

/** Shows the progress of a long read on one line of a terminal: a bar, bytes, the rate and the time left. */
export class Progress {
  readonly #stderr: Io['stderr']
  /** Undefined if the size of the input is not known. */
  readonly #total: number | undefined
  readonly #now: () => number
  readonly #began: number
  #read = 0
  #drawnAt: number
  #isDrawn = false

  /** `now`: milliseconds of any clock. */
  constructor(stderr: Io['stderr'], total: number | undefined, now: () => number) {
    this.#stderr = stderr
    this.#total = total
    this.#now = now
    this.#began = now()
    this.#drawnAt = this.#began
  }

  add(bytes: number): void {
    this.#read += bytes
    if (!this.#stderr.isTTY) return
    const now = this.#now()
    if (now - this.#drawnAt < DRAWN_EVERY_MS) return
    this.#drawnAt = now
    this.#isDrawn = true
    const text = progressText(this.#read, this.#total, now - this.#began)
    this.#stderr.write(`${LINE_START}${text.slice(0, (this.#stderr.columns || 80) - 1)}`)
  }

  end(): void {
    if (this.#isDrawn) this.#stderr.write(LINE_START)
    this.#isDrawn = false
  }
}

/** `[##########          ]  50 %  1.2 GB of 2.4 GB  310.5 MB/s  4s left`. */
export function progressText(read: number, total: number | undefined, elapsedMs: number): string {
  const perMs = read / elapsedMs
  const rate = `${formatSize(Math.round(perMs * 1000))}/s`
  if (!total) return `${formatSize(read)}  ${rate}`
  const part = Math.min(read / total, 1)
  const bar = '#'.repeat(Math.floor(part * BAR_WIDTH)).padEnd(BAR_WIDTH)
  const left = read === 0 ? '' : `  ${formatDuration(Math.max(total - read, 0) / perMs)} left`
  return `[${bar}] ${String(Math.floor(part * 100)).padStart(3)} %  ${formatSize(read)} of ${formatSize(total)}  ${rate}${left}`
}
