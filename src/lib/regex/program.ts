import { type Atoms, NOTHING } from './atoms.js'
import { type Edge, type Look, type Node, UnboundedPattern } from './syntax.js'

/** Whether an assertion holds between two symbols, in text order. `looks` has a bit for each evaluated look-around. */
export type Check = (before: number, after: number, looks: number) => boolean

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
/** They must fit in a byte, one bit each. */
const MOST_LOOKS = 8

/** The look-arounds of a pattern that need a separate scan, each after those nested in it. */
export class Looks {
  readonly all: Look[] = []
  readonly #numbers = new Map<string, number>()

  number(look: Look): number {
    let number = this.#numbers.get(look.text)
    if (number === undefined) {
      for (const inner of looksIn(look.node)) this.number(inner)
      number = this.all.push(look) - 1
      if (number === MOST_LOOKS)
        throw new UnboundedPattern(`has more than ${MOST_LOOKS} different look-arounds; use fewer`)
      this.#numbers.set(look.text, number)
    }
    return number
  }
}

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

function looksIn(node: Node): Look[] {
  if (node.kind === 'look') return isNear(node.node) ? [] : [node]
  if (node.kind === 'repeat') return looksIn(node.node)
  return 'nodes' in node ? node.nodes.flatMap(looksIn) : []
}

/** Whether the two adjacent characters are enough to decide it. */
function isNear(node: Node): boolean {
  if (node.kind === 'choice') return node.nodes.every(isNear)
  return node.kind === 'atom' || node.kind === 'start' || node.kind === 'end' || node.kind === 'boundary'
}

class Compiler {
  readonly #atoms: Atoms
  readonly #looks: Looks
  readonly #backwards: boolean
  readonly #instructions: Instruction[] = [{ op: 'match' }]
  #remembers = false
  #weight = 0
  /** Number of repeats around the node being compiled. */
  #repeats = 0

  constructor(atoms: Atoms, looks: Looks, backwards: boolean) {
    this.#atoms = atoms
    this.#looks = looks
    this.#backwards = backwards
  }

  program(node: Node): Program {
    const start = this.#compile(node, 0)
    const anchored = !this.#backwards && isAnchored(node)
    return { instructions: this.#instructions, start, remembers: this.#remembers, anchored }
  }

  #add(instruction: Instruction, isPlain = false): number {
    this.#weight += isPlain && this.#repeats === 0 ? PLAIN_WEIGHT : 1
    if (this.#weight > MOST_WEIGHT) {
      throw new UnboundedPattern(
        `is too large: with its counted repeats written out it has too many parts; use smaller counts, or * and +`,
      )
    }
    return this.#instructions.push(instruction) - 1
  }

  /** Adds the instructions for `node`, which continue at `next`. Returns the index of the first. */
  #compile(node: Node, next: number): number {
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
      case 'look':
        return this.#add({ op: 'check', holds: this.#look(node), next })
      default:
        return this.#add({ op: 'check', holds: this.#edge(node), next })
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

  #edge({ kind, atom, negated }: Edge): Check {
    const atoms = this.#atoms
    if (atom !== undefined) this.#remembers = true
    if (kind === 'boundary') {
      return (before, after) => (atoms.has(before, atom!) !== atoms.has(after, atom!)) !== negated
    }
    const isEdge = (symbol: number) => symbol === NOTHING || (atom !== undefined && atoms.has(symbol, atom))
    return kind === 'start' ? before => isEdge(before) : (_before, after) => isEdge(after)
  }

  #look(look: Look): Check {
    const { node, behind, negated } = look
    if (isNear(node)) {
      const holds = this.#near(node, behind)
      return (before, after, looks) => holds(before, after, looks) !== negated
    }
    const bit = 1 << this.#looks.number(look)
    return (_before, _after, looks) => ((looks & bit) !== 0) !== negated
  }

  #near(node: Node, behind: boolean): Check {
    if (node.kind === 'choice') {
      const checks = node.nodes.map(part => this.#near(part, behind))
      return (before, after, looks) => checks.some(holds => holds(before, after, looks))
    }
    if (node.kind !== 'atom') return this.#edge(node as Edge)
    this.#remembers = true
    const { atom } = node
    return (before, after) => this.#atoms.has(behind ? before : after, atom)
  }
}
