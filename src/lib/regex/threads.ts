import type { Atoms } from './atoms.js'
import { ATOM, CHECK, CLEAR, FORK, type GroupProgram, MATCH, SAVE } from './group-program.js'

/** A way to match so far: the instruction that it is at, and the row of registers with the places of its groups. */
export interface Thread {
  readonly at: number
  readonly row: number
}

/** What the slots of a way become: whether each gets the place of the next character, or none. */
export type Tags = ReadonlyMap<number, boolean>

/** Where a thread gets to. `from`: its index; -1 for a match that begins here. */
export interface Way {
  readonly at: number
  readonly from: number
  readonly tags: Tags
}

/** Limit of ways. */
export const MOST_WAYS = 64

/** A list of tags, the last one first. */
interface Noted {
  readonly slot: number
  readonly isSet: boolean
  readonly before: Noted | undefined
}

/** Follows the instructions of a program from one character to the next, without ADVANCE. */
export class Threads {
  /** In the order of preference: where threads get to by a character. */
  ways: Way[] = []
  /** A match before that character, which is preferred to what would come behind `ways`. */
  match: Way | undefined
  /** Instructions that were followed, and what was noted for the ways. */
  steps = 0
  readonly #program: GroupProgram
  readonly #atoms: Atoms
  readonly #followed = new Set<number>()
  readonly #found = new Set<number>()

  constructor(program: GroupProgram, atoms: Atoms) {
    this.#program = program
    this.#atoms = atoms
  }

  /** Follows all threads, until there are too many ways. `begins`: a match may begin here as well. */
  follow(threads: readonly Thread[], begins: boolean, previous: number, symbol: number): void {
    this.ways = []
    this.match = undefined
    this.steps = 0
    this.#followed.clear()
    this.#found.clear()
    for (const [from, { at }] of threads.entries()) if (!this.#isDone) this.#follow(at, from, previous, symbol)
    if (begins && !this.#isDone) this.#follow(this.#program.start, -1, previous, symbol)
  }

  get #isDone(): boolean {
    return this.match !== undefined || this.ways.length > MOST_WAYS
  }

  #follow(first: number, from: number, previous: number, symbol: number): void {
    const { operations, nexts, operands, checks, lists } = this.#program
    const open: { at: number; noted: Noted | undefined }[] = [{ at: first, noted: undefined }]
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      let { at, noted } = one
      while (!this.#followed.has(at)) {
        this.#followed.add(at)
        this.steps++
        const operation = operations[at]!
        const operand = operands[at]!
        const next = nexts[at]!
        if (operation === MATCH) {
          this.match = this.#way(at, from, noted)
          return
        }
        if (operation === ATOM) {
          if (this.#atoms.has(symbol, operand) && !this.#found.has(next)) {
            this.#found.add(next)
            if (this.ways.push(this.#way(next, from, noted)) > MOST_WAYS) return
          }
          break
        }
        if (operation === CHECK && !checks[at]!(previous, symbol, 0)) break
        if (operation === FORK) open.push({ at: operand, noted })
        else if (operation === SAVE) noted = { slot: operand, isSet: true, before: noted }
        else if (operation === CLEAR) {
          for (const slot of lists[operand]!) noted = { slot, isSet: false, before: noted }
          this.steps += lists[operand]!.length
        }
        at = next
      }
    }
  }

  #way(at: number, from: number, noted: Noted | undefined): Way {
    const tags = new Map<number, boolean>()
    for (let one = noted; one; one = one.before) {
      this.steps++
      if (!tags.has(one.slot)) tags.set(one.slot, one.isSet)
    }
    return { at, from, tags }
  }
}
