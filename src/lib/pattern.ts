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

export class Pattern {
  readonly source: string
  readonly flags: string
  readonly test: (text: string) => boolean

  /** Throws PatternError. `flags` may contain i, m, s and u. */
  constructor(source: string, flags = 'u') {
    this.source = source
    this.flags = flags
    this.test = compile(source, flags)
  }

  toString(): string {
    return `/${this.source}/${this.flags}`
  }
}

function compile(source: string, flags: string): (text: string) => boolean {
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
    const node = readSyntax(source, flags, atoms)
    const automaton = compileAutomaton(node, atoms, flags)
    const longest = longestForBacktracking(node, isAnchored(node), atoms)
    return text => (text.length <= longest ? native.test(text) : automaton(text))
  } catch (error) {
    if (!(error instanceof UnboundedPattern)) throw error
    throw new PatternError(`the regular expression ${error.message}`)
  }
}
