/** What may be shown in a terminal: text that came from anywhere may hold what moves the cursor, or worse. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\u2028\u2029]/gu, sign => `\\u{${sign.codePointAt(0)!.toString(16)}}`)
}

/** The same for text of several lines: line ends and tabs stay. */
export function printableText(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** JSON that may be shown in a terminal, with the same value: the standard leaves these characters as they are. */
export function printableJson(json: string): string {
  return json.replace(
    /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    sign => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
