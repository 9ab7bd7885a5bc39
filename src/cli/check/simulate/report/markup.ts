/** Text from events is untrusted: it reaches the page only through `escaped`, in elements and in quoted attributes. */
export function escaped(text: string): string {
  return text.replace(/[&<>"'`]/g, char => `&#${char.charCodeAt(0)};`)
}

/** The longest text of a key that the page shows, and the longest in a legend or a tooltip. */
export const KEY_LENGTH = 200
export const LABEL_LENGTH = 40

/** Cuts a text to `most` characters, the last of which then is an ellipsis. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text
  return `${text
    .slice(0, most - 1)
    .toWellFormed()
    .replace(/\ufffd$/, '')}…`
}

/** Three decimals are enough for a place in a picture. */
export const round = (value: number) => Math.round(value * 1000) / 1000
