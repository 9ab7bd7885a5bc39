import { systemClock } from '../../../lib/time.js'

const MOST_LINES = 100
const IN_MS = 60_000
export const LONGEST_LINE = 4096

/**
 * Passes on lines that a script writes, for example with `console.log`. Passes on at most MOST_LINES lines a minute,
 * and the number of further lines.
 */
export class WrittenLines {
  readonly #pass: (line: string) => void
  #since = Number.NEGATIVE_INFINITY
  #lines = 0

  constructor(pass: (line: string) => void) {
    this.#pass = pass
  }

  add(text: string): void {
    for (const line of text.split('\n')) if (line !== '') this.#add(line)
  }

  #add(line: string): void {
    const now = systemClock.now()
    if (now - this.#since >= IN_MS) {
      if (this.#lines > MOST_LINES) this.#pass(`(${this.#lines - MOST_LINES} more lines were not logged)`)
      this.#since = now
      this.#lines = 0
    }
    this.#lines++
    if (this.#lines <= MOST_LINES) this.#pass(line.slice(0, LONGEST_LINE))
  }
}
