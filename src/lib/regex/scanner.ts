import { resized } from '../columns.js'
import { type Atoms, TEXT_EDGE } from './atoms.js'
import type { Check } from './checks.js'
import { ATOM, FORK, MATCH, type Program, SAVE } from './program.js'

/**
 * Runs a program over a text, character by character, in all its states at once. Each set of states is a state of a
 * deterministic automaton, which is built on demand. A known transition costs one step. An unknown transition costs at
 * most one step per instruction of the program. If the automaton gets too large, it is dropped. If that happens
 * repeatedly, the sets are simulated without building anything.
 */

/** Maximum table cells of one scanner and, in MOST_CELLS_OF_ALL, of all scanners together. */
const MOST_CELLS = 1 << 16
const MOST_CELLS_OF_ALL = 1 << 22
/** For letters from this number on, transitions are not stored but computed each time. */
const MOST_LETTERS = 2048
/** Building the automaton is worthwhile if it reads at least this many characters for each state built. */
const WORTHWHILE = 8
const LAST_ROUND = 0xffff_ffff

const DEAD = 0
const START = 1
/** Replaces any symbol if only the presence of a symbol matters, not which one it is. */
const SOMETHING = 1

const filled = new Set<Scanner>()
let cells = 0

interface State {
  readonly instructions: Uint16Array
  readonly previous: number
}

export interface ScannerOptions {
  readonly program: Program
  readonly atoms: Atoms
  readonly unicode: boolean
  readonly backwards: boolean
  readonly anchored: boolean
  /** Number of look-around bits of each position. */
  readonly looks: number
}

export class Scanner {
  readonly #operations: Uint8Array
  readonly #nexts: Uint16Array
  /** The second branch of a fork, or the index of an atom. */
  readonly #operands: Uint16Array
  readonly #checks: readonly (Check | undefined)[]
  readonly #start: number
  readonly #remembers: boolean
  readonly #anchored: boolean
  readonly #atoms: Atoms
  readonly #unicode: boolean
  readonly #backwards: boolean
  readonly #looks: number

  /** For each instruction: the last round that followed it and, in `#found`, the last round that found it. */
  readonly #followed: Uint32Array
  readonly #found: Uint32Array
  readonly #open: Uint16Array
  #round = 0
  /** The instructions that `#follow` found. */
  #result: Uint16Array
  #results = 0

  #states: State[] = []
  #numbers = new Map<string, number>()
  /** By state and letter (a symbol and look-around bits): the next state * 2, plus 1 for a match. 0: unknown. */
  #table = new Int32Array(0)
  #letters = 0
  #cells = 0

  constructor({ program, atoms, unicode, backwards, anchored, looks }: ScannerOptions) {
    const { operations, nexts, operands } = program
    const size = operations.length
    // Skips instructions that only keep notes, since they do not affect whether there is a match. The instruction after
    // them has a lower index, so its entry in `behind` is already known.
    const behind = new Uint16Array(size)
    for (let at = 0; at < size; at++) behind[at] = operations[at]! >= SAVE ? behind[nexts[at]!]! : at
    this.#operations = operations
    this.#nexts = Uint16Array.from(nexts, next => behind[next]!)
    this.#operands = Uint16Array.from(operands, (to, at) => (operations[at] === FORK ? behind[to]! : to))
    this.#checks = program.checks
    this.#followed = new Uint32Array(size)
    this.#found = new Uint32Array(size)
    this.#open = new Uint16Array(2 * size + 2)
    this.#result = new Uint16Array(size)
    this.#start = behind[program.start]!
    this.#remembers = program.remembers
    this.#anchored = anchored
    this.#atoms = atoms
    this.#unicode = unicode
    this.#backwards = backwards
    this.#looks = looks
  }

  /** Whether there is a match anywhere in `text`. `looks`: the look-around bits of each position. */
  test(text: string, looks: Uint8Array | undefined): boolean {
    const { latin } = this.#atoms
    const shift = this.#looks
    const unicode = this.#unicode
    let state = this.#begin()
    let table = this.#table
    let letters = this.#letters
    let since = 0
    for (let p = 0; p < text.length; p++) {
      const at = p
      let code = text.charCodeAt(p)
      if ((code & 0xfc00) === 0xd800 && unicode) {
        code = text.codePointAt(p)!
        if (code > 0xffff) p++
      }
      const known = code < 256 ? latin[code]! : TEXT_EDGE
      const symbol = known === TEXT_EDGE ? this.#atoms.symbolOf(code) : known
      const letter = looks ? (symbol << shift) | looks[at]! : symbol
      let next = letter < letters ? table[state * letters + letter]! : 0
      if (next === 0) {
        if (this.#isFull) {
          if (at - since < WORTHWHILE * this.#states.length) return this.#simulate(text, at, state, looks, 0)
          since = at
        }
        next = this.#build(state, symbol, looks ? looks[at]! : 0)
        table = this.#table
        letters = this.#letters
      }
      if ((next & 1) === 1) return true
      state = next >> 1
      if (state === DEAD) return false
    }
    return (this.#next(state, TEXT_EDGE, looks ? looks[text.length]! : 0) & 1) === 1
  }

  /** Sets `bit` at each position of `text` where a match ends, in reading direction. */
  mark(text: string, looks: Uint8Array, bit: number): void {
    let state = this.#begin()
    let p = this.#backwards ? text.length : 0
    const last = this.#backwards ? 0 : text.length
    let read = 0
    for (;;) {
      if (this.#isFull) {
        if (read < WORTHWHILE * this.#states.length) {
          this.#simulate(text, p, state, looks, bit)
          return
        }
        read = 0
      }
      read++
      const code = p === last ? -1 : this.#codeAt(text, p)
      const next = this.#next(state, code === -1 ? TEXT_EDGE : this.#atoms.symbolOf(code), looks[p]!)
      if ((next & 1) === 1) looks[p]! |= bit
      if (code === -1) return
      state = next >> 1
      const width = code > 0xffff ? 2 : 1
      p += this.#backwards ? -width : width
    }
  }

  /** Continues at `p` without building states. If `bit` is 0, stops at the first match; otherwise marks all. */
  #simulate(text: string, p: number, state: number, looks: Uint8Array | undefined, bit: number): boolean {
    const { instructions } = this.#states[state]!
    let { previous } = this.#states[state]!
    let current: Uint16Array = new Uint16Array(this.#operations.length)
    current.set(instructions)
    let count = instructions.length
    const last = this.#backwards ? 0 : text.length
    for (;;) {
      const code = p === last ? -1 : this.#codeAt(text, p)
      const symbol = code === -1 ? TEXT_EDGE : this.#atoms.symbolOf(code)
      const matched = this.#follow(current, count, previous, symbol, looks ? looks[p]! : 0)
      if (matched && bit === 0) return true
      if (matched) looks![p]! |= bit
      if (code === -1) return false
      const spare = current
      current = this.#result
      count = this.#results
      this.#result = spare
      if (count === 0 && this.#anchored) return false
      previous = symbol
      const width = code > 0xffff ? 2 : 1
      p += this.#backwards ? -width : width
    }
  }

  /** Returns the character after position `p`, or before it when reading backwards. */
  #codeAt(text: string, p: number): number {
    if (!this.#backwards) return this.#unicode ? text.codePointAt(p)! : text.charCodeAt(p)
    const code = this.#unicode && p > 1 ? text.codePointAt(p - 2)! : 0
    return code > 0xffff ? code : text.charCodeAt(p - 1)
  }

  #next(state: number, symbol: number, looks: number): number {
    const letter = (symbol << this.#looks) | looks
    const known = letter < this.#letters ? this.#table[state * this.#letters + letter]! : 0
    return known === 0 ? this.#build(state, symbol, looks) : known
  }

  #begin(): number {
    if (this.#states.length === 0) {
      this.#states.push({ instructions: new Uint16Array(0), previous: TEXT_EDGE })
      this.#number(this.#anchored ? Uint16Array.of(this.#start) : new Uint16Array(0), TEXT_EDGE)
    }
    return START
  }

  get #isFull(): boolean {
    return this.#cells > MOST_CELLS || cells > MOST_CELLS_OF_ALL
  }

  /** Discards the automaton. */
  clear(): void {
    this.#states = []
    this.#numbers = new Map()
    this.#table = new Int32Array(0)
    this.#letters = 0
    cells -= this.#cells
    this.#cells = 0
    filled.delete(this)
  }

  #build(state: number, symbol: number, looks: number): number {
    const { instructions, previous } = this.#states[state]!
    const matched = this.#follow(instructions, instructions.length, previous, symbol, looks)
    const letter = (symbol << this.#looks) | looks
    const isKept = letter < MOST_LETTERS
    const isNarrow = isKept && letter >= this.#letters
    if (isNarrow || this.#isFull) {
      const letters = isNarrow ? Math.min(this.#atoms.symbols << this.#looks, MOST_LETTERS) : this.#letters
      state = this.#renew(letters, instructions, previous)
    }
    const kept = symbol === TEXT_EDGE || this.#remembers ? symbol : SOMETHING
    const isDead = this.#results === 0 && this.#anchored
    const target = isDead ? DEAD : this.#number(this.#result.slice(0, this.#results).sort(), kept)
    const next = (target << 1) | Number(matched)
    if (isKept) this.#table[state * this.#letters + letter] = next
    return next
  }

  /**
   * Follows transitions that read nothing, then transitions that read `symbol`. Returns whether a match ends before
   * `symbol`.
   */
  #follow(from: Uint16Array, count: number, previous: number, symbol: number, looks: number): boolean {
    if (this.#round === LAST_ROUND) {
      this.#round = 0
      this.#followed.fill(0)
      this.#found.fill(0)
    }
    const round = ++this.#round
    const operations = this.#operations
    const nexts = this.#nexts
    const operands = this.#operands
    const result = this.#result
    const anchored = this.#anchored
    const followed = this.#followed
    const found = this.#found
    const open = this.#open
    const members = symbol === TEXT_EDGE ? undefined : this.#atoms.membersOf(symbol)
    let matched = false
    let results = 0
    for (let i = anchored ? 0 : -1; i < count; i++) {
      const first = i < 0 ? this.#start : from[i]!
      if (operations[first] === ATOM) {
        const next = nexts[first]!
        if (members && members[operands[first]!] === 1 && found[next] !== round) {
          found[next] = round
          result[results++] = next
        }
        continue
      }
      open[0] = first
      for (let top = 1; top > 0; ) {
        const at = open[--top]!
        if (followed[at] === round) continue
        followed[at] = round
        const next = nexts[at]!
        const operation = operations[at]!
        if (operation === ATOM) {
          if (members && members[operands[at]!] === 1 && found[next] !== round) {
            found[next] = round
            result[results++] = next
          }
        } else if (operation === FORK) {
          open[top++] = next
          open[top++] = operands[at]!
        } else if (operation === MATCH) matched = true
        else if (
          this.#backwards ? this.#checks[at]!(symbol, previous, looks) : this.#checks[at]!(previous, symbol, looks)
        )
          open[top++] = next
      }
    }
    this.#results = results
    return matched
  }

  /** Discards the automaton, and begins a new one with rows of `letters` cells. Returns the new number of the state. */
  #renew(letters: number, instructions: Uint16Array, previous: number): number {
    this.clear()
    if (cells > MOST_CELLS_OF_ALL) for (const other of [...filled]) other.clear()
    this.#letters = letters
    this.#begin()
    return this.#number(instructions, previous)
  }

  #number(instructions: Uint16Array, previous: number): number {
    const name = String.fromCharCode(previous, ...instructions)
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    const number = this.#states.push({ instructions, previous }) - 1
    this.#numbers.set(name, number)
    const needed = (number + 1) * this.#letters
    if (needed > this.#table.length) this.#table = resized(this.#table, Math.max(needed, 2 * this.#table.length))
    const more = this.#letters + 2 * instructions.length
    this.#cells += more
    cells += more
    filled.add(this)
    return number
  }
}
