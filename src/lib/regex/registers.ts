import type { Tags, Thread, Way } from './threads.js'

/** What a transition changes. */
export interface Effect {
  /** Pairs of rows: one that is copied, and the one that it is copied to. */
  readonly copies: readonly number[]
  /** Rows of matches that begin here. */
  readonly begun: readonly number[]
  readonly changes: Changes
  /** The match before the character: its row, -1 if it begins here, and what is noted for it. */
  readonly match: { readonly row: number; readonly changes: Changes } | undefined
  readonly isMatchOnly: boolean
  /** How many numbers it holds. */
  readonly size: number
}

/** Slots that get the place, and slots that are cleared, each as a pair of row and slot. */
interface Changes {
  readonly sets: readonly number[]
  readonly clears: readonly number[]
}

/** The places that the threads of a search have noted, in a row for each. Slot 0 is where its match begins. */
export class Registers {
  readonly #slots: number
  #registers: Int32Array
  /** By row: how many slots there are before those that nothing was noted in. */
  #used = new Int32Array(1)
  /** A match that was found last. It is not copied before its row changes: longer ones may follow at each character. */
  #match: Effect['match']
  #matchEnd = 0
  #found: Int32Array | undefined

  constructor(slots: number) {
    this.#slots = slots
    this.#registers = new Int32Array(slots).fill(-1)
  }

  /** Begins a search, with one thread in row 0 that begins at the first character. */
  begin(): void {
    this.#match = this.#found = undefined
    this.#beginRow(0, 0)
  }

  /** The slots of the match that was found. */
  end(): Int32Array | undefined {
    this.#keepMatch()
    return this.#found
  }

  apply({ copies, begun, changes, match, isMatchOnly }: Effect, p: number): void {
    if (match !== undefined) {
      this.#match = match
      this.#matchEnd = p
    }
    if (isMatchOnly) return
    this.#keepMatch()
    for (let n = 0; n < copies.length; n += 2) this.#copy(copies[n]!, copies[n + 1]!)
    for (let n = 0; n < begun.length; n++) this.#beginRow(begun[n]!, p)
    const registers = this.#registers
    const used = this.#used
    const slots = this.#slots
    const { sets, clears } = changes
    for (let n = 0; n < sets.length; n += 2) {
      const row = sets[n]!
      const slot = sets[n + 1]!
      registers[row * slots + slot] = p
      if (slot >= used[row]!) used[row] = slot + 1
    }
    for (let n = 0; n < clears.length; n += 2) registers[clears[n]! * slots + clears[n + 1]!] = -1
  }

  #copy(from: number, to: number): void {
    const registers = this.#registers
    const source = from * this.#slots
    const target = to * this.#slots
    const used = Math.max(this.#used[from]!, this.#used[to]!)
    for (let n = 0; n < used; n++) registers[target + n] = registers[source + n]!
    this.#used[to] = this.#used[from]!
  }

  #beginRow(row: number, p: number): void {
    const first = row * this.#slots
    this.#registers.fill(-1, first, first + this.#used[row]!)
    this.#registers[first] = p
    this.#used[row] = 1
  }

  #keepMatch(): void {
    if (this.#match === undefined) return
    const { row, changes } = this.#match
    const slots = this.#slots
    const p = this.#matchEnd
    const found = row < 0 ? new Int32Array(slots).fill(-1) : this.#registers.slice(row * slots, (row + 1) * slots)
    const { sets, clears } = changes
    if (row < 0) found[0] = p
    for (let n = 1; n < sets.length; n += 2) found[sets[n]!] = p
    for (let n = 1; n < clears.length; n += 2) found[clears[n]!] = -1
    found[1] = p
    this.#found = found
    this.#match = undefined
  }

  /** Gives each way a row, and says what changes in them. A thread keeps its row where it can. */
  assign(from: readonly Thread[], ways: readonly Way[], match: Way | undefined): { rows: number[]; effect: Effect } {
    const rowOf = (way: Way) => (way.from < 0 ? -1 : from[way.from]!.row)
    const needed = new Set(ways.map(rowOf))
    const [copies, begun]: [number[], number[]] = [[], []]
    const rows: number[] = []
    for (const way of ways) {
      const own = rowOf(way)
      let row = own
      if (own < 0 || rows.includes(own)) for (row = 0; needed.has(row) || rows.includes(row); ) row++
      rows.push(row)
      if (own < 0) begun.push(row)
      else if (row !== own) copies.push(own, row)
    }
    this.#makeRoom(Math.max(0, ...rows) + 1)
    const changes = changesOf(rows.map((row, n) => [row, ways[n]!.tags]))
    const size = copies.length + begun.length + sizeOf(changes)
    const ofMatch = match && { row: rowOf(match), changes: changesOf([[0, match.tags]]) }
    const effect = {
      copies,
      begun,
      changes,
      match: ofMatch,
      isMatchOnly: size === 0,
      size: size + (ofMatch ? sizeOf(ofMatch.changes) : 0),
    }
    return { rows, effect }
  }

  #makeRoom(rows: number): void {
    if (rows <= this.#used.length) return
    const [registers, used] = [this.#registers, this.#used]
    this.#registers = new Int32Array(2 * rows * this.#slots).fill(-1)
    this.#registers.set(registers)
    this.#used = new Int32Array(2 * rows)
    this.#used.set(used)
  }
}

function sizeOf({ sets, clears }: Changes): number {
  return sets.length + clears.length
}

function changesOf(all: readonly (readonly [row: number, tags: Tags])[]): Changes {
  const [sets, clears]: [number[], number[]] = [[], []]
  for (const [row, tags] of all) for (const [slot, isSet] of tags) (isSet ? sets : clears).push(row, slot)
  return { sets, clears }
}
