import type { Atoms } from './atoms.js'
import { Backtracker } from './backtracker.js'
import { LookArounds } from './checks.js'
import { compileGroups, isAnchored, type Program } from './program.js'
import { Scanner } from './scanner.js'
import type { Node } from './syntax.js'

/** A range in UTF-16 code units. `end` is exclusive. */
export type TextRange = readonly [start: number, end: number]

export interface PatternMatch {
  readonly start: number
  readonly end: number
  /**
   * The places of groups by number; the first is the whole match. Undefined for a group that did not take part in the
   * match.
   */
  readonly groups: readonly (TextRange | undefined)[]
}

/** Finds the first match that begins at `from` or later. */
export type PatternSearch = (text: string, from: number) => PatternMatch | undefined

/** `native` has the flags d and g. */
export function nativeSearch(native: RegExp): PatternSearch {
  return (text, from) => {
    native.lastIndex = from
    const found = native.exec(text)
    if (!found) return undefined
    const groups = found.indices as TextRange[]
    return { start: groups[0]![0], end: groups[0]![1], groups }
  }
}

/** A pattern that matches a text in a time proportional to the text's length. */
export interface Compiled {
  test(text: string): boolean
  /** Throws UnboundedPattern for a text that takes too much memory. */
  readonly search: PatternSearch
}

export function compileLinear(node: Node, atoms: Atoms, flags: string, groups: number): Compiled {
  const unicode = flags.includes('u')
  const anchored = isAnchored(node)
  const looks = new LookArounds()
  const compile = (part: Node, backwards: boolean): Tracer => {
    const program = compileGroups(part, atoms, looks, groups, backwards)
    const inner = program.inner.map(({ look, slot }) => ({ slot, tracer: compile(look.node, look.behind) }))
    return { program, inner, backtracker: new Backtracker({ program, atoms, unicode, backwards }) }
  }
  const main = compile(node, false)
  const { backtracker } = main
  // All look-arounds are known now. Nested look-arounds come before the outer one, which needs their bits.
  const count = looks.all.length
  const scanner = new Scanner({ program: main.program, atoms, unicode, anchored, backwards: false, looks: count })
  const marking = looks.all.map(({ node, behind }) => {
    const program = compileGroups(node, atoms, looks, groups, !behind)
    return new Scanner({ program, atoms, unicode, anchored: false, backwards: !behind, looks: count })
  })
  const lookAroundBits = (text: string) => {
    if (marking.length === 0) return undefined
    const all = new Uint8Array(text.length + 1)
    for (const [i, one] of marking.entries()) one.mark(text, all, 1 << i)
    return all
  }
  const required = requiredTexts(node, atoms)
  const test = (text: string) => required.every(part => text.includes(part)) && scanner.test(text, lookAroundBits(text))
  const search: PatternSearch = (text, from) => {
    if (unicode && from > 0 && text.codePointAt(from - 1)! > 0xffff) from--
    if (from > text.length || (anchored && from > 0)) return undefined
    if (!backtracker.knows(text, from)) {
      // An anchored pattern can match at only one place. This place is tried without a test.
      if (!anchored && !test(text)) return undefined
      backtracker.begin(text, from, lookAroundBits(text))
    }
    const slots = anchored ? backtracker.matchAt(from) : backtracker.search(from)
    return slots && new LinearMatch(text, lookAroundBits, main, slots, groups)
  }
  return { test, search }
}

/** Maximum length of a required text, since searching for a long repetitive one may be slow. */
const MOST_REQUIRED = 32

/** Returns texts that every match contains. V8 finds such a text much faster than the scanner finds a match. */
function requiredTexts(node: Node, atoms: Atoms): string[] {
  const texts = ['']
  for (const part of node.kind === 'sequence' ? node.nodes : [node]) {
    const char = part.kind === 'atom' ? atoms.charOf(part.atom) : undefined
    if (char === undefined || texts.at(-1)!.length >= MOST_REQUIRED) texts.push('')
    if (char !== undefined) texts.push(texts.pop()! + char)
  }
  // The longest text is probably the rarest.
  return texts.filter(text => text.length > 1 || texts.length === 1).sort((a, b) => b.length - a.length)
}

interface Tracer {
  readonly program: Program
  readonly backtracker: Backtracker
  readonly inner: readonly { readonly slot: number; readonly tracer: Tracer }[]
}

class LinearMatch implements PatternMatch {
  readonly start: number
  readonly end: number
  readonly #text: string
  readonly #lookAroundBits: (text: string) => Uint8Array | undefined
  readonly #tracer: Tracer
  readonly #slots: Int32Array
  readonly #count: number

  constructor(
    text: string,
    lookAroundBits: (text: string) => Uint8Array | undefined,
    tracer: Tracer,
    slots: Int32Array,
    count: number,
  ) {
    this.start = slots[0]!
    this.end = slots[1]!
    this.#text = text
    this.#lookAroundBits = lookAroundBits
    this.#tracer = tracer
    this.#slots = slots
    this.#count = count
  }

  get groups(): (TextRange | undefined)[] {
    const groups: (TextRange | undefined)[] = []
    for (let n = 0; n < this.#count; n++) {
      groups.push(this.#slots[2 * n] === -1 ? undefined : [this.#slots[2 * n]!, this.#slots[2 * n + 1]!])
    }
    this.#addInner(this.#tracer, this.#slots, groups)
    return groups
  }

  /** Matches look-arounds again at the places where they last held, to find the groups inside them. */
  #addInner(tracer: Tracer, slots: Int32Array, groups: (TextRange | undefined)[]): void {
    for (const { slot, tracer: inner } of tracer.inner) {
      if (slots[slot] === -1) continue
      inner.backtracker.begin(this.#text, 0, this.#lookAroundBits(this.#text))
      const found = inner.backtracker.matchAt(slots[slot]!)!
      for (let n = 1; n < this.#count; n++) {
        if (found[2 * n] !== -1) groups[n] = [found[2 * n]!, found[2 * n + 1]!]
      }
      this.#addInner(inner, found, groups)
    }
  }
}
