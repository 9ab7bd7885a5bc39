/** The matches in one value: ranges of bytes, each with the number of the rule that found it. */
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

  /** From index `from` on, removes the matches of rules for which `isKept` is 0. Keeps the number in `%B4111`. */
  filter(b: Buffer, isKept: Uint8Array, from = 0): void {
    let last = from - 1
    for (let i = from; i < this.count; i++) {
      const start = this.starts[i]!
      const before = isKept[this.rules[i]!] === 0 ? b.toString('latin1', Math.max(0, start - 2), start) : '%B'
      if (/%[a-f]$/i.test(before)) this.#copy(i, ++last)
    }
    this.count = last + 1
  }

  /** Orders the ranges, and joins those that overlap. */
  merge(): void {
    this.order()
    let last = 0
    for (let i = 1; i < this.count; i++) {
      if (this.starts[i]! < this.ends[last]!) this.ends[last] = Math.max(this.ends[last]!, this.ends[i]!)
      else this.#copy(i, ++last)
    }
    this.count = Math.min(this.count, last + 1)
  }

  /** Orders the ranges by their starts. Presets find most ranges in this order, but patterns add theirs afterwards. */
  order(): void {
    const { starts, ends, rules, count } = this
    let i = 1
    while (i < count && starts[i]! >= starts[i - 1]!) i++
    if (i >= count) return
    const order = Array.from({ length: count }, (_, n) => n).sort((a, b) => starts[a]! - starts[b]!)
    const all = order.map(n => [starts[n]!, ends[n]!, rules[n]!] as const)
    this.count = 0
    for (const [start, end, rule] of all) this.add(start, end, rule)
  }

  #copy(from: number, to: number): void {
    this.starts[to] = this.starts[from]!
    this.ends[to] = this.ends[from]!
    this.rules[to] = this.rules[from]!
  }
}
