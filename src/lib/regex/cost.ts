import type { Atoms } from './atoms.js'
import type { Node } from './syntax.js'

/**
 * Estimates how long a backtracking matcher may take for a pattern. On a text of n characters, it may have to try about
 * `factor * n ** degree` ways. A repeat adds nothing if the next character determines where it ends, as in `[^"]*"`.
 */

interface Ways {
  readonly factor: number
  readonly degree: number
  /** Trying all ways, and the rest of the pattern after each, may take steps in proportion to `n ** work`. */
  readonly work: number
}

interface Rest {
  readonly atoms: readonly number[]
  /** Whether the rest may begin with an assertion, which can fail anywhere. */
  readonly asserts: boolean
  /** Whether nothing in the rest can fail. */
  readonly done: boolean
}

/** Maximum steps per character: for texts of any length, and for texts of at most LONGEST characters. */
const MOST_STEPS = 64
const MOST_STEPS_OF_SHORT = 1024
const LONGEST = 448
/** If many ways fail, most of them fail within this many characters. */
const LIKELY_LENGTH = 4
const HOPELESS: Ways = { factor: Infinity, degree: 0, work: Infinity }
const DONE: Rest = { atoms: [], asserts: false, done: true }

/** Returns the maximum length of texts for which backtracking takes a time proportional to the length. */
export function longestForBacktracking(node: Node, anchored: boolean, atoms: Atoms): number {
  const cost = new Cost(atoms)
  const { factor, degree, work } = cost.ways(node, DONE, 0)
  const length = cost.fixedLength(node)
  const isLinear = cost.repeats.length === 0 || anchored || cost.isSeparated(node)
  if (degree === 0 && factor * length <= MOST_STEPS && isLinear) return Infinity
  if (anchored && work <= 1 && factor * length <= MOST_STEPS) return Infinity
  const most = degree === 0 ? length : Math.min(length, LIKELY_LENGTH)
  for (let n = LONGEST; n > 0; n = Math.floor(n * 0.8)) {
    const steps = factor * n ** degree * (most + (cost.repeats.length > degree ? n : 0)) * (anchored ? 1 : n)
    if (steps <= MOST_STEPS_OF_SHORT * n) return n
  }
  return 0
}

class Cost {
  readonly #atoms: Atoms
  /** The bodies of unbounded repeats that precede a part which can fail. */
  readonly repeats: Node[] = []

  constructor(atoms: Atoms) {
    this.#atoms = atoms
  }

  /** `then`: the `work` of the rest of the pattern. */
  ways(node: Node, rest: Rest, then: number): Ways {
    switch (node.kind) {
      case 'sequence': {
        let all: Ways = { factor: 1, degree: 0, work: then }
        let after = rest
        for (const part of node.nodes.toReversed()) {
          const { factor, degree, work } = this.ways(part, after, all.work)
          all =
            part.kind === 'look'
              ? { factor: all.factor + factor, degree: Math.max(all.degree, degree), work }
              : { factor: all.factor * factor, degree: all.degree + degree, work }
          after = this.#before(part, after)
        }
        return all
      }
      case 'choice': {
        const each = node.nodes.map(part => this.ways(part, rest, then))
        const factors = each.map(({ factor }) => factor)
        const firsts = node.nodes.map(part => this.#before(part, rest))
        const exclusive = firsts.every((one, i) => firsts.slice(i + 1).every(other => this.#areDisjoint(one, other)))
        const factor = exclusive ? Math.max(...factors) : factors.reduce((sum, one) => sum + one)
        const [degree, work] = [Math.max(...each.map(one => one.degree)), Math.max(...each.map(one => one.work))]
        return { factor, degree, work }
      }
      case 'look':
        // After its first match, a look-around is not entered again to try other ways.
        return { ...this.ways(node.node, { atoms: [], asserts: true, done: false }, 1), work: Math.max(1, then) + 1 }
      case 'repeat':
        return this.#repeat(node, rest, then)
      default:
        return { factor: 1, degree: 0, work: then }
    }
  }

  #repeat(repeat: Node & { kind: 'repeat' }, rest: Rest, then: number): Ways {
    const { node, min, max } = repeat
    const again = this.#before(node, { atoms: [], asserts: false, done: false })
    const once = this.ways(node, { ...rest, atoms: [...rest.atoms, ...again.atoms], done: false }, then)
    const ends = rest.done || this.#areDisjoint(again, rest)
    if (max === Infinity) {
      if (once.factor > 1 || once.degree > 0 || isNullable(node)) return HOPELESS
      if (!rest.done) this.repeats.push(node)
      return ends ? { factor: 1, degree: 0, work: Math.max(1, then) } : { factor: 1, degree: 1, work: then + 1 }
    }
    if (once.degree > 0 && max > 1) return HOPELESS
    const { factor, degree, work } = once
    if (factor === 1) return { factor: ends ? 1 : max - min + 1, degree, work }
    return { factor: factor ** max + (min === 0 ? 1 : 0), degree, work }
  }

  /** `rest`: what follows `node`. Returns what follows the part before `node`: `node`, then `rest`. */
  #before(node: Node, rest: Rest): Rest {
    switch (node.kind) {
      case 'atom':
        return { atoms: [node.atom], asserts: false, done: false }
      case 'sequence':
        return node.nodes.reduceRight((after, part) => this.#before(part, after), rest)
      case 'choice': {
        const all = node.nodes.map(part => this.#before(part, rest))
        return {
          atoms: distinct(all.flatMap(({ atoms }) => atoms)),
          asserts: all.some(({ asserts }) => asserts),
          done: all.every(({ done }) => done),
        }
      }
      case 'repeat': {
        const first = this.#before(node.node, rest)
        if (node.min > 0) return first
        return {
          atoms: distinct([...first.atoms, ...rest.atoms]),
          asserts: first.asserts || rest.asserts,
          done: rest.done,
        }
      }
      default:
        return { ...rest, asserts: true, done: false }
    }
  }

  #areDisjoint(a: Rest, b: Rest): boolean {
    if (a.asserts || b.asserts) return false
    return a.atoms.every(one => b.atoms.every(other => this.#atoms.areDisjoint(one, other)))
  }

  /** Whether a match begins with a character that no repeat accepts. If so, repeats of two attempts do not overlap. */
  isSeparated(node: Node): boolean {
    const all = this.repeats.flatMap(atomsIn)
    return leadingAtoms(node).some(atom => all.every(other => this.#atoms.areDisjoint(atom, other)))
  }

  /** Returns the maximum characters of a match. An unbounded repeat counts as its minimum and one more iteration. */
  fixedLength(node: Node): number {
    if (node.kind === 'look') return this.fixedLength(node.node)
    if (node.kind === 'choice') return Math.max(...node.nodes.map(part => this.fixedLength(part)))
    if (node.kind === 'sequence') return node.nodes.reduce((sum, part) => sum + this.fixedLength(part), 0)
    if (node.kind !== 'repeat') return 1
    return (node.max === Infinity ? node.min + 1 : node.max) * this.fixedLength(node.node)
  }
}

/** Removes duplicates. Otherwise, each part that may be empty would double the number of atoms. */
function distinct(atoms: readonly number[]): number[] {
  return [...new Set(atoms)]
}

function atomsIn(node: Node): number[] {
  if (node.kind === 'atom') return [node.atom]
  if (node.kind === 'repeat' || node.kind === 'look') return atomsIn(node.node)
  return 'nodes' in node ? node.nodes.flatMap(atomsIn) : []
}

/** Returns the atoms with which every match begins, if their positions are fixed. */
function leadingAtoms(node: Node): number[] {
  if (node.kind === 'atom') return [node.atom]
  if (node.kind !== 'sequence') return []
  const end = node.nodes.findIndex(({ kind }) => kind !== 'atom' && kind !== 'boundary')
  return node.nodes.slice(0, end === -1 ? node.nodes.length : end).flatMap(atomsIn)
}

/** Whether `node` may match the empty text. */
export function isNullable(node: Node): boolean {
  if (node.kind === 'atom') return false
  if (node.kind === 'sequence') return node.nodes.every(isNullable)
  if (node.kind === 'choice') return node.nodes.some(isNullable)
  return node.kind !== 'repeat' || node.min === 0 || isNullable(node.node)
}
