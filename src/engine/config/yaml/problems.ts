import { formatProblem, type Problem } from '../../../core/errors.js'
import { type Path, type Place, pathText } from './node.js'

export interface Found {
  readonly problems: Problems
  readonly warnings: Problems
}

export class Problems {
  readonly #found = new Map<string, { problem: Problem; offset: number }>()
  readonly #most: number
  #unlisted = 0

  /** `most`: number of problems that are listed. Further problems are only counted. */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most
  }

  get size(): number {
    return this.#found.size + this.#unlisted
  }

  /** Whether no further problem is listed. If so, counts as many as are skipped. */
  skips(count: number): boolean {
    if (this.#found.size < this.#most) return false
    this.#unlisted += count
    return true
  }

  /** A message that is a function is called only if the problem is listed. */
  add(at: Place, path: Path, message: string | (() => string)): void {
    if (this.skips(1)) return
    const { file } = at.source
    const said = typeof message === 'string' ? message : message()
    const problem = { file, ...at.source.place(at.offset), path: pathText(path), message: said }
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
