/** A syntax error in a condition; `column` is 1-based, in characters of the whole text. */
export class ConditionError extends Error {
  readonly code = 'SLUICE_CONDITION'
  readonly column: number
  constructor(message: string, column: number) {
    super(message)
    this.column = column
  }
}

export const WORD_AT = /[\p{L}_][\p{L}\p{N}_]*/uy
const SPACE = /\s*/y

/** A position in the text of a condition. Moving past a token also skips the white space after the token. */
export class Cursor {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
    this.skipSpace()
  }

  get isAtEnd(): boolean {
    return this.at === this.text.length
  }

  get char(): string | undefined {
    return this.text[this.at]
  }

  skipSpace(): void {
    this.at += this.peek(SPACE)!.length
  }

  /** Returns the text that a sticky pattern matches at the cursor. */
  peek(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    return pattern.exec(this.text)?.[0]
  }

  take(pattern: RegExp): string | undefined {
    const found = this.peek(pattern)
    if (found === undefined) return undefined
    this.moveTo(this.at + found.length)
    return found
  }

  moveTo(at: number): void {
    this.at = at
    this.skipSpace()
  }

  /** Takes a keyword, which may be in upper or lower case. `word` is in lower case. */
  takeWord(word: string): boolean {
    const found = this.peek(WORD_AT)
    if (found?.toLowerCase() !== word) return false
    this.moveTo(this.at + found.length)
    return true
  }

  takeChar(char: string): boolean {
    if (this.char !== char) return false
    this.moveTo(this.at + 1)
    return true
  }

  /** Takes a quoted text, in which \', \" and \\ stand for their second character. Any other backslash is literal. */
  takeQuoted(quote: string): string {
    const start = this.at++
    let value = ''
    for (;;) {
      const char = this.text[this.at++]
      if (char === undefined) this.fail(`the quote that opens here is not closed: expected ${quote}`, start)
      if (char === quote) break
      const next = this.text[this.at]
      if (char === '\\' && (next === "'" || next === '"' || next === '\\')) {
        value += next
        this.at++
      } else value += char
    }
    if (!value.isWellFormed()) this.fail('the value contains half of a surrogate pair, which is not a character', start)
    this.skipSpace()
    return value
  }

  fail(message: string, at = this.at): never {
    throw new ConditionError(message, at + 1)
  }
}
