import { Atoms } from './regex/atoms.js'
import { longestForBacktracking } from './regex/cost.js'
import { isAnchored } from './regex/program.js'
import { compileLinear, nativeSearch, type PatternMatch, type PatternSearch } from './regex/search.js'
import { readSyntax, UnboundedPattern } from './regex/syntax.js'
import { cpuTime } from './time.js'

export type { PatternMatch }

/**
 * Users' regular expressions, with the syntax and semantics of JavaScript, matched in a time bounded by the text's
 * length. V8 backtracks: `(a+)+$` on 40 characters takes minutes and blocks everything else. So V8 matches only
 * patterns and texts that need at most a few hundred steps per character. An automaton matches all others, in about the
 * same time for every pattern.
 */

/** Maximum length of a pattern, in characters. */
const LONGEST = 64 * 1024

export class PatternError extends Error {}

export type Matcher = Pick<Pattern, 'source' | 'flags' | 'test'>

export class Pattern {
  readonly source: string
  readonly flags: string
  readonly test: (text: string) => boolean
  /** The name of each group, by group number; undefined: no name. Number 0 is the whole match. */
  readonly groupNames: readonly (string | undefined)[]
  readonly #search: PatternSearch

  /** Throws PatternError. `flags` may contain i, m, s and u. */
  constructor(source: string, flags = 'u') {
    this.source = source
    this.flags = flags
    const { test, search, groupNames } = compile(source, flags)
    this.test = test
    this.#search = search
    this.groupNames = groupNames
  }

  /**
   * Returns the first match that begins at `from` or later, with the groups that V8 would find. Finding all matches of
   * a text, each from the end of the previous match, takes a time proportional to the text's length. Throws
   * PatternError if the search would take too much memory. This can only happen for a text of several megabytes, or for
   * a shorter one with a large pattern.
   */
  exec(text: string, from = 0): PatternMatch | undefined {
    try {
      return this.#search(text, from)
    } catch (error) {
      throw patternError(error)
    }
  }

  toString(): string {
    return `/${this.source}/${this.flags}`
  }
}

interface Compiled {
  readonly test: (text: string) => boolean
  readonly search: PatternSearch
  readonly groupNames: readonly (string | undefined)[]
}

/** During `compilingWithin`: the patterns that were compiled, and the CPU milliseconds that remain for others. */
let within: { readonly known: Map<string, Compiled>; left: number } | undefined

/**
 * Runs `work` and compiles each of its patterns only once. After `ms` milliseconds of CPU time for all patterns
 * together, further patterns throw PatternError. Use it for patterns from other people, since compiling blocks this
 * process.
 */
export function compilingWithin<T>(ms: number, work: () => T): T {
  const outer = within
  within = { known: new Map(), left: ms }
  try {
    return work()
  } finally {
    within = outer
  }
}

function compile(source: string, flags: string): Compiled {
  if (!within) return compileNow(source, flags)
  const name = `${flags}/${source}`
  let compiled = within.known.get(name)
  if (compiled) return compiled
  if (within.left <= 0)
    throw new PatternError('the regular expressions before this one are too large together; use fewer or shorter ones')
  const before = cpuTime()
  try {
    compiled = compileNow(source, flags)
    within.known.set(name, compiled)
    return compiled
  } finally {
    within.left -= cpuTime() - before
  }
}

function compileNow(source: string, flags: string): Compiled {
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
    const linear = compileLinear(node, atoms, flags, groupNames.length)
    const longest = longestForBacktracking(node, isAnchored(node), atoms)
    const quick = nativeSearch(new RegExp(withoutNames(source), `${flags}dg`))
    const test = (text: string) => (text.length <= longest ? native.test(text) : linear.test(text))
    const search: PatternSearch = (text, from) =>
      text.length <= longest ? quick(text, from) : linear.search(text, from)
    return { test, search, groupNames }
  } catch (error) {
    throw patternError(error)
  }
}

/** Removes group names. V8 takes twice as long with them. */
function withoutNames(source: string): string {
  return source.replace(/\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\(\?<(?![=!])[^>]*>/g, part =>
    part.startsWith('(?<') ? '(' : part,
  )
}

function patternError(error: unknown): unknown {
  return error instanceof UnboundedPattern
    ? new PatternError(`the regular expression ${error.message}`, { cause: error })
    : error
}
