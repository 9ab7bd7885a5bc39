/** Makes text safe for a terminal. Untrusted text may contain control sequences. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\u2028\u2029]/gu, sign => `\\u{${sign.codePointAt(0)!.toString(16)}}`)
}

/** Like `printable`, but keeps line ends and tabs. */
export function printableText(text: string): string {
  return text.replace(/[^\n\t]+/g, printable)
}

/** Makes JSON safe for a terminal without changing its value. JSON may contain these characters unescaped. */
export function printableJson(json: string): string {
  return json.replace(
    /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    sign => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
