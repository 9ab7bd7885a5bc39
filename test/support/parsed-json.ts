import type { Test } from 'tap'

/** Returns a function that returns the length of the longest text that JSON.parse got since then. */
export function longestParsed(t: Test): () => number {
  const { parse } = JSON
  let longest = 0
  const value: typeof parse = (text, reviver) => {
    longest = Math.max(longest, text.length)
    return parse(text, reviver)
  }
  t.intercept(JSON, 'parse', { value })
  return () => longest
}
