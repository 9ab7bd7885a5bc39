/** Longer names are ignored, because comparing them is expensive and they are rarely typing errors. */
const MAX_LENGTH = 64

const row = () => new Int32Array(MAX_LENGTH + 1)

/**
 * Finds the name nearest to an unknown one, for "did you mean" in messages. Limits its work, since names may be
 * hostile.
 */
export class NearestName {
  /** How many more cells of the distance table may be computed. */
  #budget: number
  readonly #rows: readonly [Int32Array, Int32Array, Int32Array] = [row(), row(), row()]

  constructor(budget = 20_000_000) {
    this.#budget = budget
  }

  /** Returns the candidate with the fewest typing errors, the first of several; undefined if no candidate is near. */
  find(name: string, candidates: Iterable<string>): string | undefined {
    if (name.length > MAX_LENGTH) return undefined
    const wanted = name.toLowerCase()
    // Up to a third of the letters may be wrong; in a very short name, one letter.
    let best = Math.max(1, Math.floor(wanted.length / 3)) + 1
    let nearest: string | undefined
    for (const candidate of candidates) {
      if (this.#budget <= 0) break
      this.#budget--
      if (candidate.length > MAX_LENGTH || Math.abs(candidate.length - wanted.length) >= best) continue
      const distance = this.#distance(wanted, candidate.toLowerCase())
      if (distance >= best || distance >= Math.max(wanted.length, candidate.length)) continue
      best = distance
      nearest = candidate
      if (best === 0) break
    }
    return nearest
  }

  /** Returns how many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`. */
  #distance(a: string, b: string): number {
    this.#budget -= a.length * b.length
    let [before, last, row] = this.#rows
    for (let j = 0; j <= b.length; j++) last[j] = j
    for (let i = 1; i <= a.length; i++) {
      row[0] = i
      for (let j = 1; j <= b.length; j++) {
        const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
        let errors = Math.min(last[j]! + 1, row[j - 1]! + 1, replaced)
        const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
        if (swapped) errors = Math.min(errors, before[j - 2]! + 1)
        row[j] = errors
      }
      ;[before, last, row] = [last, row, before]
    }
    return last[b.length]!
  }
}
