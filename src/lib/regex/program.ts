import type { Atoms } from './atoms.js'
import { type Check, Checks, type Looks } from './checks.js'
import { type Node, TooLargePattern } from './syntax.js'

export type Instruction =
  | { readonly op: 'atom'; readonly atom: number; readonly next: number }
  | { readonly op: 'fork'; readonly next: number; other: number }
  | { readonly op: 'check'; readonly holds: Check; readonly next: number }
  | { readonly op: 'match' }

/** A pattern compiled to a nondeterministic automaton. */
export interface Program {
  readonly instructions: readonly Instruction[]
  readonly start: number
  /** Whether a check needs the previous symbol, not only whether there was one. */
  readonly remembers: boolean
  /** Whether it can only match at the beginning of the text. */
  readonly anchored: boolean
}

/**
 * Size limit of a pattern: a character of text costs at most about this many steps. Literal text that is not repeated
 * has a lower weight, since only a few of its characters are active at a time.
 */
const MOST_WEIGHT = 600
const PLAIN_WEIGHT = 1 / 16
/** Of a group in a repeat: in each iteration its places are cleared and noted. */
const GROUP_WEIGHT = 1 / 2

/** `backwards`: for reading the text from its end. */
export function compileProgram(node: Node, atoms: Atoms, looks: Looks, backwards = false): Program {
  return new Compiler(atoms, looks, backwards).program(node)
}

/** Whether it can only match at the beginning of the text. */
export function isAnchored(node: Node | undefined): boolean {
  if (node?.kind === 'start') return node.atom === undefined
  if (node?.kind === 'sequence') return isAnchored(node.nodes[0])
  if (node?.kind === 'choice') return node.nodes.every(isAnchored)
  return node?.kind === 'repeat' && node.min > 0 && isAnchored(node.node)
}

class Compiler {
  readonly #atoms: Atoms
  readonly #checks: Checks
  readonly #backwards: boolean
  readonly #instructions: Instruction[] = [{ op: 'match' }]
  #weight = 0
  /** Number of repeats around the node being compiled. */
  #repeats = 0

  constructor(atoms: Atoms, looks: Looks, backwards: boolean) {
    this.#atoms = atoms
    this.#checks = new Checks(atoms, looks)
    this.#backwards = backwards
  }

  program(node: Node): Program {
    const start = this.#compile(node, 0)
    const anchored = !this.#backwards && isAnchored(node)
    return { instructions: this.#instructions, start, remembers: this.#checks.remembers, anchored }
  }

  #add(instruction: Instruction, isPlain = false): number {
    this.#weigh(isPlain && this.#repeats === 0 ? PLAIN_WEIGHT : 1)
    return this.#instructions.push(instruction) - 1
  }

  #weigh(weight: number): void {
    this.#weight += weight
    if (this.#weight > MOST_WEIGHT) {
      throw new TooLargePattern(
        `is too large: with its counted repeats written out it has too many parts; use smaller counts, or * and +`,
      )
    }
  }

  /** Adds the instructions for `node`, which continue at `next`. Returns the index of the first. */
  #compile(node: Node, next: number): number {
    if (this.#repeats > 0 && node.groups) this.#weigh(GROUP_WEIGHT * node.groups.length)
    switch (node.kind) {
      case 'atom':
        return this.#add({ op: 'atom', atom: node.atom, next }, this.#atoms.isPlain(node.atom))
      case 'sequence': {
        const nodes = this.#backwards ? node.nodes : node.nodes.toReversed()
        return nodes.reduce((at, part) => this.#compile(part, at), next)
      }
      case 'choice': {
        const starts = node.nodes.map(part => this.#compile(part, next))
        return starts.reduce((at, other) => this.#add({ op: 'fork', next: at, other }, true))
      }
      case 'repeat':
        if (node.max > 1) this.#repeats++
        try {
          return this.#repeat(node.node, node.min, node.max, next)
        } finally {
          if (node.max > 1) this.#repeats--
        }
      default:
        return this.#add({ op: 'check', holds: this.#checks.of(node), next })
    }
  }

  #repeat(node: Node, min: number, max: number, next: number): number {
    let at = next
    if (max === Infinity) {
      const fork: Instruction = { op: 'fork', next, other: next }
      at = this.#add(fork)
      fork.other = this.#compile(node, at)
    } else {
      for (let i = min; i < max; i++) at = this.#add({ op: 'fork', next, other: this.#compile(node, at) })
    }
    for (let i = 0; i < min; i++) {
      const before = at
      at = this.#compile(node, at)
      // The body is empty, so repeating it changes nothing.
      if (at === before) break
    }
    return at
  }
}
