import { ConfigError, formatProblem, type Problem } from '../../../core/errors.js'
import type { ConfigPlace } from './node.js'
import type { Path } from './path.js'
import { pathText } from './path.js'

export interface FoundProblem {
  readonly problems: Problems
  readonly warnings: Problems
}

export class Problems {
  readonly #found = new Map<string, { problem: Problem; offset: number }>()
  readonly #most: number
  /** How many problems there are at least. */
  #least = 0

  /** A problem after the first `most` ends the check: `add` throws a ConfigError with the problems before it. */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most
  }

  get size(): number {
    return this.#found.size
  }

  /** Call before `count` problems are added. If the check ends among them, the ConfigError counts all of them. */
  expect(count: number): void {
    this.#least = this.#found.size + count
  }

  /** `unusable`: see Problem. */
  add(at: ConfigPlace, path: Path, message: string, unusable?: string): void {
    if (this.#found.size >= this.#most) throw new ConfigError(this.list(), [], Math.max(this.#least, this.#most + 1))
    const { file } = at.source
    const problem = {
      file,
      ...at.source.place(at.offset),
      path: pathText(path),
      message,
      ...(unusable !== undefined && { unusable }),
    }
    const text = formatProblem(problem)
    if (!this.#found.has(text)) this.#found.set(text, { problem, offset: at.offset })
  }

  addAll(others: Problems): void {
    for (const [text, found] of others.#found) if (!this.#found.has(text)) this.#found.set(text, found)
  }

  /** Sorted by file, and by position in each file. */
  list(): Problem[] {
    const found = [...this.#found.values()]
    found.sort((a, b) =>
      a.problem.file === b.problem.file ? a.offset - b.offset : a.problem.file < b.problem.file ? -1 : 1,
    )
    return found.map(({ problem }) => problem)
  }
}
