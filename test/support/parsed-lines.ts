/** The values of the whole lines of a text, each JSON: what is behind the last line end is not one. */
// biome-ignore lint/suspicious/noExplicitAny: as of JSON.parse
export const parsedLines = <T = any>(text: string): T[] =>
  text
    .split('\n')
    .slice(0, -1)
    .filter(Boolean)
    .map(line => JSON.parse(line) as T)
