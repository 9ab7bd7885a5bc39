/** Escapes a text for the inside of an element or a quoted attribute. */
export function escapedHtml(text: string): string {
  return text.replace(/[&<>"'`]/g, char => `&#${char.charCodeAt(0)};`)
}
