import { Lexer, Parser } from 'yaml'

/** Maximum number of open tokens. A level of a readable configuration opens at most two. */
const MOST_OPEN = 256

/**
 * Returns the offset at which a YAML text is nested so deeply that parsing could exhaust memory or stack; undefined if
 * this never happens. Memory matters because each level of `- - -` repeats all tokens of the levels outside it.
 */
export function tooDeepAt(text: string): number | undefined {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(text)) {
    // Drops the documents that have ended.
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > MOST_OPEN) return parser.offset
  }
  return undefined
}
