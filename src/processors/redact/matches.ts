/** What was found in one value: ranges of bytes, each with the number of the rule that found it. */
export class Matches {
  count = 0
  readonly starts: number[] = []
  readonly ends: number[] = []
  readonly rules: number[] = []

  clear(): void {
    this.count = 0
  }

  add(start: number, end: number, rule: number): void {
    this.starts[this.count] = start
    this.ends[this.count] = end
    this.rules[this.count++] = rule
  }

  /** Orders the ranges, and joins those that overlap. */
  merge(): void {
    for (let i = 1; i < this.count; i++) {
      const [start, end, rule] = [this.starts[i]!, this.ends[i]!, this.rules[i]!]
      let at = i
      for (; at > 0 && this.starts[at - 1]! > start; at--) this.#copy(at - 1, at)
      this.starts[at] = start
      this.ends[at] = end
      this.rules[at] = rule
    }
    let last = 0
    for (let i = 1; i < this.count; i++) {
      if (this.starts[i]! < this.ends[last]!) this.ends[last] = Math.max(this.ends[last]!, this.ends[i]!)
      else this.#copy(i, ++last)
    }
    this.count = Math.min(this.count, last + 1)
  }

  #copy(from: number, to: number): void {
    this.starts[to] = this.starts[from]!
    this.ends[to] = this.ends[from]!
    this.rules[to] = this.rules[from]!
  }
}
