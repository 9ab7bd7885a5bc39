import { Atoms } from './regex/atoms.js'
import { compileAutomaton } from './regex/automaton.js'
import { longestForBacktracking } from './regex/cost.js'
import { isAnchored } from './regex/program.js'
import { readSyntax, UnboundedPattern } from './regex/syntax.js'

/**
 * Regular expressions from users, with the syntax and semantics of JavaScript, matched in a time that is bounded by the
 * length of the text. V8 backtracks: `(a+)+$` on 40 characters takes minutes and blocks everything else. V8 is used
 * only for patterns and texts that need at most a few hundred steps per character. The rest is matched by an automaton,
 * which takes about the same time for every pattern.
 */

/** Longer patterns are rejected. */
const LONGEST = 64 * 1024

/** The pattern cannot be used; the message says why. */
export class PatternError extends Error {}

/** Places are in UTF-16 code units, the second behind the last one. */
type Place = readonly [start: number, end: number]

export interface PatternMatch {
  readonly start: number
  readonly end: number
  /** Places of the groups by number, the first that of the whole match; undefined for a group that took no part. */
  readonly groups: readonly (Place | undefined)[]
}

/** What decides whether a text matches. */
export type Matcher = Pick<Pattern, 'source' | 'flags' | 'test'>

export class Pattern {
  readonly source: string
  readonly flags: string
  readonly test: (text: string) => boolean
  /** Names of the groups by number; the first stands for the whole match. */
  readonly groupNames: readonly (string | undefined)[]
  readonly #search: (text: string, from: number) => PatternMatch | undefined

  /** Throws PatternError. `flags` may contain i, m, s and u. */
  constructor(source: string, flags = 'u') {
    this.source = source
    this.flags = flags
    const { test, search, groupNames } = compile(source, flags)
    this.test = test
    this.#search = search
    this.groupNames = groupNames
  }

  /** The first match that begins at `from` or later, with the groups that V8 would give it. Throws PatternError. */
  exec(text: string, from = 0): PatternMatch | undefined {
    return this.#search(text, from)
  }

  toString(): string {
    return `/${this.source}/${this.flags}`
  }
}

interface Compiled {
  readonly test: (text: string) => boolean
  readonly search: (text: string, from: number) => PatternMatch | undefined
  readonly groupNames: readonly (string | undefined)[]
}

function compile(source: string, flags: string): Compiled {
  if (source.length > LONGEST) throw new PatternError(`the regular expression is longer than ${LONGEST} characters`)
  let native: RegExp
  try {
    native = new RegExp(source, flags)
  } catch (error) {
    const reason = (error as Error).message.replace(/^Invalid regular expression: /, '')
    throw new PatternError(`not a regular expression: ${reason}`)
  }
  try {
    const atoms = new Atoms()
    const { node, groupNames } = readSyntax(source, flags, atoms)
    const automaton = compileAutomaton(node, atoms, flags)
    const nativeSearch = searchOf(new RegExp(source, `${flags}dg`))
    const longest = longestForBacktracking(node, isAnchored(node), atoms)
    const test = (text: string) => (text.length <= longest ? native.test(text) : automaton(text))
    const search = (text: string, from: number) => {
      if (text.length > longest) throw new PatternError('the text is too long for the regular expression')
      return nativeSearch(text, from)
    }
    return { test, search, groupNames }
  } catch (error) {
    if (!(error instanceof UnboundedPattern)) throw error
    throw new PatternError(`the regular expression ${error.message}`)
  }
}

/** `native` has the flags d and g. */
function searchOf(native: RegExp): (text: string, from: number) => PatternMatch | undefined {
  return (text, from) => {
    native.lastIndex = from
    const found = native.exec(text)
    if (!found) return undefined
    const groups = found.indices as Place[]
    return { start: groups[0]![0], end: groups[0]![1], groups }
  }
}
