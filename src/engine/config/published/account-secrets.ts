/**
 * Secrets of an account in the configuration of a published pipeline, which refers to them as `${secret:NAME}`. The
 * runner of the pipeline inserts the values. secret-places.ts defines where references may occur.
 */

export const SECRET_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/

/** The name of the environment variable that holds the value of a secret. */
export const secretVariable = (name: string): string => `secret:${name}`

const REFERENCE = '${secret:'

/** The sorted names of all secrets that a configuration refers to. */
export function secretNamesIn(config: unknown): string[] {
  const names = new Set<string>()
  for (const { value } of textsIn(config)) for (const name of referencesIn(value)) names.add(name)
  return [...names].sort()
}

/**
 * The names that a text refers to; `$${` stands for a literal `${`. Scans once: a regular expression would search for
 * the end of each reference again, and take minutes for a text with many unfinished ones.
 */
export function referencesIn(text: string): string[] {
  const names: string[] = []
  let at = text.indexOf(REFERENCE)
  while (at >= 0) {
    const from = at + REFERENCE.length
    const isLiteral = text[at - 1] === '$'
    const end = isLiteral ? from : text.indexOf('}', from)
    if (end < 0) break
    if (!isLiteral) names.push(text.slice(from, end))
    at = text.indexOf(REFERENCE, end)
  }
  return names
}

/** All texts in a value, with their paths. */
export function textsIn(value: unknown, path: readonly string[] = []): { path: readonly string[]; value: string }[] {
  if (typeof value === 'string') return [{ path, value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => textsIn(member, [...path, name]))
}
