import { Lexer, Parser } from 'yaml'

/** Maximum number of open tokens. Each level of a readable configuration opens up to two. */
const MOST_OPEN = 256

/**
 * The offset at which a YAML text is nested too deeply: parsing it could use up the memory or the stack. Undefined if
 * it is not. Each level of `- - -` repeats all tokens of its outer levels.
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
