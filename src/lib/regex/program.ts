import type { Atoms } from './atoms.js'
import { type Check, EdgeChecks, type LookArounds } from './checks.js'
import { isNullable } from './cost.js'
import { type Lookaround, type Node, type Repeat, TooLargePattern } from './syntax.js'

/** Operations of instructions. An instruction continues at its `next` unless it fails. */
export const MATCH = 0
/** Reads a character that belongs to the atom `operand`. */
export const ATOM = 1
/** Continues at `next` or, if that fails, at `operand`. */
export const FORK = 2
export const CHECK = 3
/** Stores the position in the slot `operand`. This operation and those with higher numbers only keep notes. */
export const SAVE = 4
/** Clears the slots of the list `operand`. */
export const CLEAR = 5
/** Fails if the position still equals the slot `operand`. */
export const ADVANCE = 6

/**
 * A pattern as instructions that keep the order of alternatives and store positions in slots. The slots of group n are
 * 2n and 2n + 1; other slots follow.
 */
export interface Program {
  readonly operations: Uint8Array
  readonly nexts: Int32Array
  readonly operands: Int32Array
  readonly checks: readonly (Check | undefined)[]
  readonly lists: readonly (readonly number[])[]
  readonly start: number
  readonly slots: number
  /** For each instruction to which several others lead: the number of its first state. Otherwise -1. */
  readonly joins: Int32Array
  /** Number of states that all these instructions have at one place of the text. */
  readonly states: number
  /**
   * For each instruction: a slot for each enclosing iteration that must match text, innermost first. A slot holds
   * the iteration's start.
   */
  readonly starts: readonly (readonly number[])[]
  /** Look-arounds with groups. The slot has the position where the look-around last held. */
  readonly inner: readonly { readonly look: Lookaround; readonly slot: number }[]
  /** Whether a check must know the previous symbol. Otherwise it is enough to know whether there was one. */
  readonly remembers: boolean
}

/**
 * Maximum weight of a pattern, which is about the maximum number of steps per character of the text. Literal text in a
 * pattern weighs less if it is not repeated, because only a few of its characters are active at a time.
 */
const MOST_WEIGHT = 600
const PLAIN_WEIGHT = 1 / 16
/** Weight of a group in a repeat. A group costs time because each iteration clears and stores its positions. */
const GROUP_WEIGHT = 1 / 2

/** Whether `node` can only match at the beginning of the text. */
export function isAnchored(node: Node | undefined): boolean {
  if (node?.kind === 'start') return node.atom === undefined
  if (node?.kind === 'sequence') return isAnchored(node.nodes[0])
  if (node?.kind === 'choice') return node.nodes.every(isAnchored)
  return node?.kind === 'repeat' && node.min > 0 && isAnchored(node.node)
}

interface Instruction {
  readonly operation: number
  readonly next: number
  operand: number
  readonly check: Check | undefined
  readonly starts: readonly number[]
}

/** `backwards`: reads the text from its end, as a look-behind does. `groups`: number of groups of the pattern. */
export function compileGroups(
  node: Node,
  atoms: Atoms,
  looks: LookArounds,
  groups: number,
  backwards = false,
): Program {
  return new GroupCompiler(atoms, new EdgeChecks(atoms, looks), groups, backwards).program(node)
}

class GroupCompiler {
  readonly #atoms: Atoms
  readonly #checks: EdgeChecks
  readonly #backwards: boolean
  readonly #instructions: Instruction[] = []
  readonly #lists: number[][] = []
  readonly #inner: { look: Lookaround; slot: number }[] = []
  #slots: number
  #starts: readonly number[] = []
  #weight = 0
  /** Number of repeats around the node that is being compiled. */
  #repeats = 0

  constructor(atoms: Atoms, checks: EdgeChecks, groups: number, backwards: boolean) {
    this.#atoms = atoms
    this.#checks = checks
    this.#slots = 2 * groups
    this.#backwards = backwards
  }

  program(node: Node): Program {
    const start = this.#compile(node, this.#add(MATCH, 0))
    const all = this.#instructions
    const incoming = new Uint32Array(all.length)
    incoming[start]!++
    for (const { operation, next, operand } of all) {
      if (operation !== MATCH) incoming[next]!++
      if (operation === FORK) incoming[operand]!++
    }
    let states = 0
    const joins = new Int32Array(all.length).fill(-1)
    for (const [i, one] of all.entries()) {
      if (incoming[i]! < 2) continue
      joins[i] = states
      states += one.starts.length + 1
    }
    return {
      operations: Uint8Array.from(all, one => one.operation),
      nexts: Int32Array.from(all, one => one.next),
      operands: Int32Array.from(all, one => one.operand),
      checks: all.map(one => one.check),
      lists: this.#lists,
      start,
      slots: this.#slots,
      joins,
      states,
      starts: all.map(one => one.starts),
      inner: this.#inner,
      remembers: this.#checks.remembers,
    }
  }

  #add(operation: number, next: number, operand = 0, check?: Check): number {
    return this.#instructions.push({ operation, next, operand, check, starts: this.#starts }) - 1
  }

  #weigh(weight: number): void {
    this.#weight += weight
    if (this.#weight <= MOST_WEIGHT) return
    throw new TooLargePattern(
      'is too large: it has too many parts once its counted repeats are written out; use smaller counts, or * and +',
    )
  }

  /** Adds the instructions for `node`, which continue at `next`. Returns the index of the first one. */
  #compile(node: Node, next: number): number {
    const groups = node.groups ?? []
    if (this.#repeats > 0) this.#weigh(GROUP_WEIGHT * groups.length)
    const last = this.#backwards ? 0 : 1
    let at = next
    for (const group of groups) at = this.#add(SAVE, at, 2 * group + last)
    at = this.#content(node, at)
    for (const group of groups.toReversed()) at = this.#add(SAVE, at, 2 * group + 1 - last)
    return at
  }

  #content(node: Node, next: number): number {
    switch (node.kind) {
      case 'atom':
        this.#weigh(this.#repeats === 0 && this.#atoms.isPlain(node.atom) ? PLAIN_WEIGHT : 1)
        return this.#add(ATOM, next, node.atom)
      case 'sequence': {
        const nodes = this.#backwards ? node.nodes : node.nodes.toReversed()
        return nodes.reduce((at, part) => this.#compile(part, at), next)
      }
      case 'choice': {
        const starts = node.nodes.map(part => this.#compile(part, next))
        this.#weigh((starts.length - 1) * (this.#repeats === 0 ? PLAIN_WEIGHT : 1))
        return starts.reduceRight((at, first) => this.#add(FORK, first, at))
      }
      case 'repeat':
        if (node.max > 1) this.#repeats++
        try {
          return this.#repeat(node, next)
        } finally {
          if (node.max > 1) this.#repeats--
        }
      case 'look':
        this.#weigh(1)
        return this.#add(CHECK, this.#saveLook(node, next), 0, this.#checks.of(node))
      default:
        this.#weigh(1)
        return this.#add(CHECK, next, 0, this.#checks.of(node))
    }
  }

  /** Saves where a look-around holds, if it has groups. Groups in a negated look-around are not kept. */
  #saveLook(look: Lookaround, next: number): number {
    if (look.negated || groupsIn(look.node).length === 0) return next
    const slot = this.#slots++
    this.#inner.push({ look, slot })
    return this.#add(SAVE, next, slot)
  }

  #repeat({ node, min, max, lazy }: Repeat, next: number): number {
    const groups = groupsIn(node)
    const slots = groups.flatMap(group => [2 * group, 2 * group + 1])
    const list = groups.length > 0 ? this.#lists.push(slots) - 1 : -1
    const start = isNullable(node) ? this.#slots++ : -1
    const looks = this.#inner.length
    const fork = (first: number, other: number) => {
      this.#weigh(1)
      return lazy ? this.#add(FORK, other, first) : this.#add(FORK, first, other)
    }
    let at = next
    if (max === Infinity) {
      at = fork(next, next)
      const body = this.#optional(node, list, start, at)
      const instruction = this.#instructions[at]!
      this.#instructions[at] = lazy ? { ...instruction, operand: body } : { ...instruction, next: body }
    } else {
      for (let i = min; i < max; i++) at = fork(this.#optional(node, list, start, at), next)
    }
    for (let i = 0; i < min; i++) {
      const before = this.#instructions.length
      at = this.#once(node, list, at)
      // This iteration contains only empty groups, which further iterations would not change.
      if (this.#instructions.slice(before).every(({ operation }) => operation === SAVE || operation === CLEAR)) break
    }
    for (const { slot } of this.#inner.slice(looks)) slots.push(slot)
    return at
  }

  /** Adds an optional iteration, which fails if it matches nothing. */
  #optional(node: Node, list: number, start: number, next: number): number {
    if (start === -1) return this.#once(node, list, next)
    const before = this.#starts
    this.#starts = [start, ...before]
    const at = this.#once(node, list, this.#add(ADVANCE, next, start))
    this.#starts = before
    return this.#add(SAVE, at, start)
  }

  #once(node: Node, list: number, next: number): number {
    const at = this.#compile(node, next)
    return list === -1 ? at : this.#add(CLEAR, at, list)
  }
}

function groupsIn(node: Node): number[] {
  const own = node.groups ?? []
  if (node.kind === 'repeat' || node.kind === 'look') return [...own, ...groupsIn(node.node)]
  return 'nodes' in node ? [...own, ...node.nodes.flatMap(groupsIn)] : [...own]
}
