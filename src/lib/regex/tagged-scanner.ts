import { type Atoms, NOTHING } from './atoms.js'
import { ADVANCE, CLEAR, type GroupProgram } from './group-program.js'
import { type Effect, Registers } from './registers.js'
import { MOST_WAYS, type Thread, Threads } from './threads.js'

/**
 * Finds the first match of a text, with its groups, and reads each character once. Like a Scanner, it follows all ways to
 * match at once, and builds the states of a deterministic automaton on demand: each is a list of ways, in the order in
 * which V8 prefers them. Where groups begin and end is noted in registers. A transition says what it changes in them,
 * which for most is nothing. This is a tagged automaton (V. Laurikari, NFAs with tagged transitions, 2000).
 */

/** Limits of table cells, and of numbers that are kept in effects and threads. */
const MOST_CELLS = 1 << 16
const MOST_KEPT = 1 << 19
/** Limit of instructions, with the slots that they clear: all may have to be followed for one transition. */
const MOST_PARTS = 1 << 14
/** Building pays off if at least this many characters are read for each transition, but for the first ones. */
const WORTHWHILE = 8
const FIRST_BUILT = 4096
/** A transition with more steps counts as several. */
const STEPS = 256
/** Stands for any symbol where only its presence matters. */
const SOMETHING = 1
/** Bits of a table cell for the number of an effect. */
const EFFECT_BITS = 16
const EFFECTS = 1 << EFFECT_BITS

const DEAD = 0
/** A match may begin at the first character only. */
const HERE = 1
const ANYWHERE = 2

interface State {
  readonly threads: readonly Thread[]
  readonly previous: number
  /** Whether a match may still begin. */
  readonly begins: boolean
}

export interface TaggedScannerOptions {
  readonly program: GroupProgram
  readonly atoms: Atoms
  readonly unicode: boolean
  /** Whether a match can only begin at the beginning of the text. */
  readonly anchored: boolean
}

export class TaggedScanner {
  readonly #remembers: boolean
  readonly #atoms: Atoms
  readonly #unicode: boolean
  readonly #anchored: boolean
  readonly #start: number
  readonly #threads: Threads
  readonly #registers: Registers
  #states: State[] = []
  #numbers = new Map<string, number>()
  /** By state and symbol: the next state plus 1 and, in the lower bits, the number of an effect. 0: unknown. */
  #table = new Int32Array(0)
  #symbols = 0
  /** The first one does nothing. */
  #effects: (Effect | undefined)[] = []
  /** Numbers in the effects, and in the threads of the states. */
  #kept = 0
  /** Characters that were read, and transitions that were built for them. */
  #read = 0
  #built = 0
  #isGivenUp = false

  constructor({ program, atoms, unicode, anchored }: TaggedScannerOptions) {
    this.#remembers = program.remembers
    this.#atoms = atoms
    this.#unicode = unicode
    this.#anchored = anchored
    this.#start = program.start
    this.#threads = new Threads(program, atoms)
    this.#registers = new Registers(program.slots)
  }

  /** Whether it can run a pattern: none with an iteration that may be empty, or a group in a look-around, or very large. */
  static canRun({ operations, operands, lists, inner }: GroupProgram): boolean {
    if (inner.length > 0 || operations.includes(ADVANCE)) return false
    return (
      operations.reduce((sum, one, at) => sum + (one === CLEAR ? lists[operands[at]!]!.length : 1), 0) <= MOST_PARTS
    )
  }

  /** Whether the pattern has too many states for the texts that it was given. */
  get isGivenUp(): boolean {
    return this.#isGivenUp
  }

  /** The places by slot of the first match; undefined if there is none, or if it is given up. */
  search(text: string): Int32Array | undefined {
    if (this.#symbols === 0) this.#clear()
    // Most patterns match from the first character on. Then ways that begin at others need not be followed.
    const found = this.#run(text, HERE)
    return found || this.#anchored || this.#isGivenUp ? found : this.#run(text, ANYWHERE)
  }

  #run(text: string, start: number): Int32Array | undefined {
    const { latin } = this.#atoms
    const registers = this.#registers
    registers.begin()
    this.#read += text.length
    let state = start
    let table = this.#table
    let symbols = this.#symbols
    for (let p = 0; state !== DEAD && p <= text.length; p++) {
      const at = p
      let symbol = NOTHING
      if (p < text.length) {
        let code = text.charCodeAt(p)
        if ((code & 0xfc00) === 0xd800 && this.#unicode) {
          code = text.codePointAt(p)!
          if (code > 0xffff) p++
        }
        symbol = code < 256 ? latin[code]! : NOTHING
        if (symbol === NOTHING) symbol = this.#atoms.symbolOf(code)
      }
      let cell = symbol < symbols ? table[state * symbols + symbol]! : 0
      if (cell === 0) {
        cell = this.#build(state, symbol)
        if (this.#isGivenUp) return undefined
        table = this.#table
        symbols = this.#symbols
      }
      const effect = cell & (EFFECTS - 1)
      if (effect !== 0) registers.apply(this.#effects[effect]!, at)
      state = (cell >> EFFECT_BITS) - 1
    }
    return registers.end()
  }

  /** Computes a transition and stores it. */
  #build(from: number, symbol: number): number {
    let number = from
    const { threads, previous, begins } = this.#states[from]!
    if (++this.#built > FIRST_BUILT + this.#read / WORTHWHILE) return this.#giveUp()
    if (symbol >= this.#symbols || this.#isFull) {
      this.#clear()
      number = this.#number({ threads, previous, begins })
    }
    const follower = this.#threads
    follower.follow(threads, begins, previous, symbol)
    const { ways, match, steps } = follower
    this.#built += Math.floor(steps / STEPS)
    if (ways.length > MOST_WAYS) return this.#giveUp()
    const { rows, effect } = this.#registers.assign(threads, ways, match)
    const target = {
      threads: ways.map(({ at }, n) => ({ at, row: rows[n]! })),
      previous: symbol === NOTHING || this.#remembers ? symbol : SOMETHING,
      begins: begins && match === undefined,
    }
    const to = ways.length === 0 && !target.begins ? DEAD : this.#number(target)
    const changes = match !== undefined || !effect.isMatchOnly
    const cell = ((to + 1) << EFFECT_BITS) | (changes ? this.#effects.push(effect) - 1 : 0)
    this.#kept += effect.size
    this.#table[number * this.#symbols + symbol] = cell
    return cell
  }

  get #isFull(): boolean {
    const most = MOST_CELLS - this.#symbols
    const isFull = this.#states.length * this.#symbols > most || this.#effects.length === EFFECTS
    return isFull || this.#kept > MOST_KEPT
  }

  /** Drops all states, and makes room for the symbols that are known. */
  #clear(): void {
    this.#symbols = this.#atoms.symbols + 8
    this.#table = new Int32Array(0)
    this.#effects = [undefined]
    this.#kept = 0
    this.#numbers = new Map()
    this.#states = []
    this.#number({ threads: [], previous: NOTHING, begins: false })
    this.#number({ threads: [{ at: this.#start, row: 0 }], previous: NOTHING, begins: false })
    if (!this.#anchored) this.#number({ threads: [], previous: NOTHING, begins: true })
  }

  #giveUp(): number {
    this.#isGivenUp = true
    this.#states = []
    this.#table = new Int32Array(0)
    this.#effects = []
    this.#numbers.clear()
    return 0
  }

  /** The number of the state, which is added if it is new. */
  #number(state: State): number {
    const { threads, previous, begins } = state
    const name = String.fromCharCode(Number(begins), previous, ...threads.flatMap(({ at, row }) => [at, row]))
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    const number = this.#states.push(state) - 1
    this.#numbers.set(name, number)
    this.#kept += 2 * threads.length
    const needed = (number + 1) * this.#symbols
    if (needed > this.#table.length) {
      const table = new Int32Array(Math.max(needed, 2 * this.#table.length))
      table.set(this.#table)
      this.#table = table
    }
    return number
  }
}
