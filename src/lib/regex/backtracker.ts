import { resized } from '../columns.js'
import { type Atoms, TEXT_EDGE } from './atoms.js'
import { ADVANCE, ATOM, CHECK, CLEAR, FORK, MATCH, type Program, SAVE } from './program.js'
import type { ScannerOptions } from './scanner.js'
import { UnboundedPattern } from './syntax.js'

/**
 * Finds matches in the order of V8, by backtracking. Notes where each instruction has failed in the text, and does not
 * try the instruction there again. Finding all matches of a text thus takes a time proportional to the text's length.
 * An instruction with only one predecessor needs no note.
 *
 * Whether an instruction succeeds depends on its place in the text, and on which iterations around it have matched no
 * text yet. An iteration fails if it ends without having matched text. If an iteration has matched nothing, the
 * iterations inside it have matched nothing either. So the number of iterations without text shows which ones they are.
 */

/** Maximum number of notes (bits), and of entries in `open`. An untried alternative takes two entries. */
const MOST_NOTES = 1 << 28
const MOST_OPEN = 1 << 24
/** Larger memory is not kept for the next text. */
const KEPT_WORDS = 1 << 16

/** Maximum size of the cache of `#possible`: instructions times symbols. */
const MOST_KNOWN = 1 << 20

/** The notes and alternatives of the last matcher that ran. Only one runs at a time. */
let notes = new Uint32Array(0)
/** The symbols of the last matcher's text, from the place of the matcher's first note on. */
let symbols = new Uint16Array(0)
let open = new Int32Array(1024)
let owner: Backtracker | undefined

export type BacktrackerOptions = Pick<ScannerOptions, 'program' | 'atoms' | 'unicode' | 'backwards'>

export class Backtracker {
  readonly #program: Program
  readonly #atoms: Atoms
  readonly #unicode: boolean
  readonly #backwards: boolean
  readonly #slots: Int32Array
  /** For each symbol: 1 for each instruction that can succeed if the symbol is next. Others are not tried. */
  readonly #possible: (Uint8Array | undefined)[] = []
  #known = 0
  #text = ''
  /** Whether the text has characters of two code units. */
  #isWide = false
  #lookAroundBits: Uint8Array | undefined
  /** The place in the text to which the first notes belong. */
  #first = 0
  /** Notes for this place and later ones are valid. Earlier places belong to matches already found. */
  #from = 0

  constructor({ program, atoms, unicode, backwards }: BacktrackerOptions) {
    this.#program = program
    this.#atoms = atoms
    this.#unicode = unicode
    this.#backwards = backwards
    this.#slots = new Int32Array(program.slots).fill(-1)
  }

  /** Whether the notes belong to this matcher, are about `text`, and cover all places from `from` on. */
  knows(text: string, from: number): boolean {
    return owner === this && from >= this.#from && text === this.#text
  }

  /** Prepares for searching `text` from `from` on. Throws UnboundedPattern if this takes too much memory. */
  begin(text: string, from: number, lookAroundBits: Uint8Array | undefined): void {
    const bits = (text.length + 1 - from) * this.#program.states
    if (bits > MOST_NOTES) throw new UnboundedPattern('takes too much memory for a text of this length')
    const words = (bits >>> 5) + 1
    if (words > notes.length || (notes.length > KEPT_WORDS && words < notes.length / 4)) notes = new Uint32Array(words)
    else notes.fill(0, 0, words)
    this.#readSymbols(text, from)
    if (open.length > KEPT_WORDS) open = new Int32Array(KEPT_WORDS)
    this.#slots.fill(-1)
    owner = this
    this.#text = text
    this.#lookAroundBits = lookAroundBits
    this.#first = from
    this.#from = from
  }

  #readSymbols(text: string, from: number): void {
    const size = text.length + 1 - from
    if (size > symbols.length || (symbols.length > KEPT_WORDS && size < symbols.length / 4)) {
      symbols = new Uint16Array(size)
    }
    const { latin } = this.#atoms
    let bits = 0
    for (let p = from; p < text.length; p++) {
      const code = text.charCodeAt(p)
      bits |= code
      const known = code < latin.length ? latin[code]! : TEXT_EDGE
      symbols[p - from] =
        known !== TEXT_EDGE ? known : this.#atoms.symbolOf(this.#unicode ? text.codePointAt(p)! : code)
    }
    symbols[size - 1] = TEXT_EDGE
    this.#isWide = this.#unicode && bits >= 0xd800
  }

  /** Returns the positions, by slot, of the first match that begins at `from` or later; undefined if there is none. */
  search(from: number): Int32Array | undefined {
    const text = this.#text
    for (let p = from; p <= text.length; p++) {
      const slots = this.matchAt(p)
      if (slots) return slots
      if (this.#unicode && text.codePointAt(p)! > 0xffff) p++
    }
    return undefined
  }

  /** Returns the match that begins at `p` or, if the text is read backwards, ends at `p`. */
  matchAt(p: number): Int32Array | undefined {
    const { operations, nexts, operands, checks, lists, joins, states, starts, start } = this.#program
    const slots = this.#slots
    const begin = p
    let at = start
    let top = 0
    let possible = this.#possibleAt(p)
    if (possible[start] === 0) return undefined
    for (;;) {
      let fails = false
      const join = joins[at]!
      if (join >= 0) {
        let bit = (p - this.#first) * states + join
        const around = starts[at]!
        for (let n = 0; n < around.length && slots[around[n]!] === p; n++) bit++
        if (notes[bit >>> 5]! & (1 << (bit & 31))) fails = true
        else notes[bit >>> 5]! |= 1 << (bit & 31)
      }
      if (!fails) {
        switch (operations[at]!) {
          case MATCH:
            return this.#found(begin, p)
          case ATOM:
            if (possible[at] === 1) {
              p += this.#backwards ? -this.#widthAt(p) : this.#widthAt(p)
              possible = this.#possibleAt(p)
            } else fails = true
            break
          case FORK: {
            const other = operands[at]!
            let chosen = nexts[at]!
            if (possible[chosen] === 0) chosen = other
            else if (possible[other] === 1) top = push(top, other, p)
            fails = possible[chosen] === 0
            if (fails) break
            at = chosen
            // Most alternatives begin with a character, which is read here to save a round of the loop.
            if (operations[at] !== ATOM || joins[at]! >= 0) continue
            p += this.#backwards ? -this.#widthAt(p) : this.#widthAt(p)
            possible = this.#possibleAt(p)
            break
          }
          case CHECK:
            fails = !checks[at]!(this.#symbolBefore(p), this.#symbolAfter(p), this.#lookAroundBits?.[p] ?? 0)
            break
          case SAVE:
            top = this.#set(top, operands[at]!, p)
            break
          case CLEAR:
            for (const slot of lists[operands[at]!]!) if (slots[slot] !== -1) top = this.#set(top, slot, -1)
            break
          case ADVANCE:
            fails = slots[operands[at]!] === p
            break
        }
      }
      if (!fails) {
        at = nexts[at]!
        continue
      }
      do {
        if (top === 0) return undefined
        top -= 2
        at = open[top]!
        if (at < 0) slots[~at] = open[top + 1]!
      } while (at < 0)
      p = open[top + 1]!
      possible = this.#possibleAt(p)
    }
  }

  #possibleAt(p: number): Uint8Array {
    const symbol = this.#backwards ? this.#symbolBefore(p) : symbols[p - this.#first]!
    return this.#possible[symbol] ?? this.#findPossible(symbol)
  }

  #findPossible(symbol: number): Uint8Array {
    const { operations, nexts, operands } = this.#program
    const possible = new Uint8Array(operations.length)
    if (this.#known + possible.length > MOST_KNOWN) {
      this.#possible.length = 0
      this.#known = 0
    }
    this.#possible[symbol] = possible
    this.#known += possible.length
    // Without repeats, instructions lead only to earlier instructions, so one round finds all that are possible.
    for (let found = true; found; ) {
      found = false
      for (let at = 0; at < possible.length; at++) {
        if (possible[at] === 1) continue
        const operation = operations[at]!
        const can =
          operation === MATCH ||
          (operation === ATOM ? this.#atoms.has(symbol, operands[at]!) : possible[nexts[at]!] === 1) ||
          (operation === FORK && possible[operands[at]!] === 1)
        if (!can) continue
        possible[at] = 1
        found = true
      }
    }
    return possible
  }

  /** Sets a slot. If the matcher goes back to an earlier alternative, the slot gets its old value again. */
  #set(top: number, slot: number, p: number): number {
    const next = push(top, ~slot, this.#slots[slot]!)
    this.#slots[slot] = p
    return next
  }

  #found(begin: number, p: number): Int32Array {
    const { states } = this.#program
    const slots = this.#slots.slice()
    slots[0] = Math.min(begin, p)
    slots[1] = Math.max(begin, p)
    this.#slots.fill(-1)
    this.#from = p
    // Clears the notes at the match's end. Some of the instructions noted there led to the match, and did not fail.
    const first = (p - this.#first) * states
    for (let bit = first; bit < first + states; bit++) notes[bit >>> 5]! &= ~(1 << (bit & 31))
    return slots
  }

  /** Returns the number of code units of the next character in reading direction. */
  #widthAt(p: number): number {
    return this.#isWide && this.#text.codePointAt(this.#backwards ? p - 2 : p)! > 0xffff ? 2 : 1
  }

  #symbolBefore(p: number): number {
    return this.#atoms.before(this.#text, p, this.#unicode)
  }

  #symbolAfter(p: number): number {
    return this.#atoms.after(this.#text, p, this.#unicode)
  }
}

function push(top: number, at: number, value: number): number {
  if (top + 2 > open.length) {
    if (top >= MOST_OPEN) {
      owner = undefined
      open = new Int32Array(KEPT_WORDS)
      throw new UnboundedPattern('takes too much memory for a text of this length')
    }
    open = resized(open, 2 * open.length)
  }
  open[top] = at
  open[top + 1] = value
  return top + 2
}
