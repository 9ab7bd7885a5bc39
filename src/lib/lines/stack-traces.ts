import { BEGINS, type Joiner } from './record-splitter.js'
import { judgeGo } from './stack-traces/go.js'
import { judgeJava } from './stack-traces/java.js'
import { judgeNode } from './stack-traces/node.js'
import { judgePython } from './stack-traces/python.js'

/** Joiners for stack traces. They do not decode lines. */

const JUDGES = { java: judgeJava, python: judgePython, go: judgeGo, node: judgeNode }

export type Language = keyof typeof JUDGES

export const LANGUAGES = Object.keys(JUDGES) as [Language, ...Language[]]

const STATE_BITS = 3
const STATES = (1 << STATE_BITS) - 1

/**
 * Joins the lines of a stack trace in one of the languages. These lines become part of the event before the trace, or
 * an event of their own.
 */
export function stackTraces(languages: readonly Language[]): Joiner {
  const judges = languages.map(language => JUDGES[language])
  if (judges.length === 1) return { judge: judges[0]! }
  return {
    judge(state, bytes, start, end) {
      let verdict = BEGINS
      let states = 0
      for (let i = 0; i < judges.length; i++) {
        const shift = i * STATE_BITS
        const judged = judges[i]!((state >> shift) & STATES, bytes, start, end)
        if ((judged & 3) > verdict) verdict = judged & 3
        states |= (judged >> 2) << shift
      }
      return verdict | (states << 2)
    },
  }
}
