import { Lexer, Parser } from 'yaml'

/** Open tokens at most. Each level of a configuration that can be read opens up to two. */
const MOST_OPEN = 256

/**
 * Where a text in YAML is nested so deeply that to parse it could use up the memory, or the stack; undefined if it is
 * not. Each level of `- - -` repeats all tokens of those around it.
 */
export function tooDeepAt(text: string): number | undefined {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(text)) {
    // Documents that have ended are not needed.
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > MOST_OPEN) return parser.offset
  }
  return undefined
}
