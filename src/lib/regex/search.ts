import type { Atoms } from './atoms.js'
import type { Automaton } from './automaton.js'
import { Backtracker } from './backtracker.js'
import { compileGroups, type GroupProgram } from './group-program.js'
import { isAnchored } from './program.js'
import type { Node } from './syntax.js'
import { TaggedScanner } from './tagged-scanner.js'

/** Places are in UTF-16 code units, the second behind the last one. */
export type Place = readonly [start: number, end: number]

export interface PatternMatch {
  readonly start: number
  readonly end: number
  /** Places of the groups by number, the first that of the whole match; undefined for a group that took no part. */
  readonly groups: readonly (Place | undefined)[]
}

/** Finds the first match that begins at `from` or later. */
export type Search = (text: string, from: number) => PatternMatch | undefined

/** `native` has the flags d and g. */
export function nativeSearch(native: RegExp): Search {
  return (text, from) => {
    native.lastIndex = from
    const found = native.exec(text)
    if (!found) return undefined
    const groups = found.indices as Place[]
    return { start: groups[0]![0], end: groups[0]![1], groups }
  }
}

/** Compiles a search whose time is proportional to the length of the text. It throws UnboundedPattern. */
export function compileSearch(node: Node, atoms: Atoms, flags: string, automaton: Automaton, groups: number): Search {
  const unicode = flags.includes('u')
  const anchored = isAnchored(node)
  const compile = (part: Node, backwards: boolean): Tracer => {
    const program = compileGroups(part, atoms, automaton.looks, groups, backwards)
    const inner = program.inner.map(({ look, slot }) => ({ slot, tracer: compile(look.node, look.behind) }))
    return { program, inner, backtracker: new Backtracker({ program, atoms, unicode, backwards }) }
  }
  let main: Tracer | undefined
  let scanner: TaggedScanner | undefined
  const start = (): Tracer => {
    const made = compile(node, false)
    const { program } = made
    if (automaton.looks.all.length === 0 && TaggedScanner.canRun(program)) {
      scanner = new TaggedScanner({ program, atoms, unicode, anchored })
    }
    return made
  }
  return (text, from) => {
    main ??= start()
    const { backtracker } = main
    // Further matches are left to the backtracker: one that looks for them from each place reads to the end each time.
    if (from === 0 && scanner?.isGivenUp === false) {
      const slots = scanner.search(text)
      if (!scanner.isGivenUp) return slots && new Found(text, automaton, main, slots, groups)
    }
    if (unicode && from > 0 && text.codePointAt(from - 1)! > 0xffff) from--
    if (from > text.length || (anchored && from > 0)) return undefined
    if (!backtracker.knows(text, from)) {
      // Where there is one place to begin at, to look for a match there is all.
      if (!anchored && !automaton.test(text)) return undefined
      backtracker.begin(text, from, automaton.marks(text))
    }
    const slots = anchored ? backtracker.matchAt(from) : backtracker.search(from)
    return slots && new Found(text, automaton, main, slots, groups)
  }
}

interface Tracer {
  readonly program: GroupProgram
  readonly backtracker: Backtracker
  /** For the groups in look-arounds. */
  readonly inner: readonly { readonly slot: number; readonly tracer: Tracer }[]
}

class Found implements PatternMatch {
  readonly start: number
  readonly end: number
  readonly #text: string
  readonly #automaton: Automaton
  readonly #tracer: Tracer
  readonly #slots: Int32Array
  readonly #count: number

  constructor(text: string, automaton: Automaton, tracer: Tracer, slots: Int32Array, count: number) {
    this.start = slots[0]!
    this.end = slots[1]!
    this.#text = text
    this.#automaton = automaton
    this.#tracer = tracer
    this.#slots = slots
    this.#count = count
  }

  get groups(): (Place | undefined)[] {
    const groups: (Place | undefined)[] = []
    for (let n = 0; n < this.#count; n++) {
      groups.push(this.#slots[2 * n] === -1 ? undefined : [this.#slots[2 * n]!, this.#slots[2 * n + 1]!])
    }
    this.#addInner(this.#tracer, this.#slots, groups)
    return groups
  }

  /** Matches look-arounds again where they held last, for the groups in them. */
  #addInner(tracer: Tracer, slots: Int32Array, groups: (Place | undefined)[]): void {
    for (const { slot, tracer: inner } of tracer.inner) {
      if (slots[slot] === -1) continue
      inner.backtracker.begin(this.#text, 0, this.#automaton.marks(this.#text))
      const found = inner.backtracker.matchAt(slots[slot]!)!
      for (let n = 1; n < this.#count; n++) {
        if (found[2 * n] !== -1) groups[n] = [found[2 * n]!, found[2 * n + 1]!]
      }
      this.#addInner(inner, found, groups)
    }
  }
}
