/** What may be shown in a terminal: text that came from anywhere may hold what moves the cursor, or worse. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\u2028\u2029]/gu, sign => `\\u{${sign.codePointAt(0)!.toString(16)}}`)
}
