import { readdirSync, readFileSync } from 'node:fs'

/** Smaller patterns for addresses, used where the surrounding pattern determines where the address ends. */
const SMALL: Readonly<Record<string, string>> = {
  // A dot behind an address ends a sentence.
  IP: '[0-9A-Fa-f:.]*[0-9A-Fa-f:]',
  IPORHOST: '[\\w.:-]+',
  SYSLOGHOST: '[\\w.:-]+',
  HOSTNAME: '[\\w.-]+',
}

/**
 * The standard patterns, read from `*.grok` in this folder in the format of Logstash. A line is a name, a blank and a
 * pattern, or a comment that begins with `#`. %{NAME} or %{NAME:field} refers to another pattern. The standard patterns
 * do not contain atomic groups, so they can be matched in linear time.
 */
export const GROK_PATTERNS: ReadonlyMap<string, string> = new Map(
  readdirSync(new URL('.', import.meta.url))
    .filter(file => file.endsWith('.grok'))
    .flatMap(file => {
      const text = readFileSync(new URL(file, import.meta.url), 'utf8')
      return patternsOf(file === 'base.grok' ? text : withSmallAddresses(text))
    }),
)

function patternsOf(text: string): [name: string, pattern: string][] {
  return [...text.matchAll(/^(\w+) (.+)$/gm)].map(([, name, pattern]) => [name!, pattern!])
}

/**
 * Replaces patterns of addresses with smaller patterns. The pattern sets of programs contain many addresses. With the
 * full patterns, these sets would exceed the limit of linear matching.
 */
function withSmallAddresses(text: string): string {
  return text.replace(/%\{(IP|IPORHOST|SYSLOGHOST|HOSTNAME)(?::([\w-]+))?\}/g, (_, name: string, field?: string) =>
    field ? `(?<${field}>${SMALL[name]})` : SMALL[name]!,
  )
}
