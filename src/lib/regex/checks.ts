import { type Atoms, TEXT_EDGE } from './atoms.js'
import { type Assertion, type Lookaround, type Node, UnboundedPattern } from './syntax.js'

/** Whether an assertion holds between two symbols, in text order. `looks` has a bit for each evaluated look-around. */
export type Check = (before: number, after: number, looks: number) => boolean

/** Maximum number of look-arounds. Their bits must fit into a byte. */
const MOST_LOOKS = 8

/** The look-arounds that need their own scan. Nested look-arounds come before the one that contains them. */
export class LookArounds {
  readonly all: Lookaround[] = []
  readonly #numbers = new Map<string, number>()

  number(look: Lookaround): number {
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

export class EdgeChecks {
  readonly #atoms: Atoms
  readonly #looks: LookArounds
  /** Whether a check must know the previous symbol. Otherwise it is enough to know whether there was one. */
  remembers = false

  constructor(atoms: Atoms, looks: LookArounds) {
    this.#atoms = atoms
    this.#looks = looks
  }

  of(node: Assertion | Lookaround): Check {
    return node.kind === 'look' ? this.#look(node) : this.#edge(node)
  }

  #edge({ kind, atom, negated }: Assertion): Check {
    const atoms = this.#atoms
    if (atom !== undefined) this.remembers = true
    if (kind === 'boundary') {
      return (before, after) => (atoms.has(before, atom!) !== atoms.has(after, atom!)) !== negated
    }
    const isEdge = (symbol: number) => symbol === TEXT_EDGE || (atom !== undefined && atoms.has(symbol, atom))
    return kind === 'start' ? before => isEdge(before) : (_before, after) => isEdge(after)
  }

  #look(look: Lookaround): Check {
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
    if (node.kind !== 'atom') return this.#edge(node as Assertion)
    this.remembers = true
    const { atom } = node
    return (before, after) => this.#atoms.has(behind ? before : after, atom)
  }
}

function looksIn(node: Node): Lookaround[] {
  if (node.kind === 'look') return isNear(node.node) ? [] : [node]
  if (node.kind === 'repeat') return looksIn(node.node)
  return 'nodes' in node ? node.nodes.flatMap(looksIn) : []
}

/** Whether the characters before and after a position decide if `node` matches there. */
function isNear(node: Node): boolean {
  if (node.kind === 'choice') return node.nodes.every(isNear)
  return node.kind === 'atom' || node.kind === 'start' || node.kind === 'end' || node.kind === 'boundary'
}
