/**
 * Secrets of an account, to which the configuration of a published pipeline refers as `${secret:NAME}`. The pipeline's
 * runner inserts the values. secret-places.ts defines where a reference may be.
 */

export const SECRET_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/

/** The name of the environment variable that holds a secret's value. */
export const secretVariable = (name: string): string => `secret:${name}`

const REFERENCE = '${secret:'

export function secretNamesIn(config: unknown): string[] {
  const names = new Set<string>()
  for (const { value } of textsIn(config)) for (const name of referencesIn(value)) names.add(name)
  return [...names].sort()
}

/**
 * Returns the names of the secrets to which a text refers. `$${` stands for a literal `${`. The text is scanned only
 * once. A regular expression would search again for the end of each reference. For a text with many unfinished
 * references, this could take minutes.
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

/** The texts that may refer to secrets. */
export function textsIn(value: unknown, path: readonly string[] = []): { path: readonly string[]; value: string }[] {
  if (typeof value === 'string') return value.includes(REFERENCE) ? [{ path, value }] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => textsIn(member, [...path, name]))
}
