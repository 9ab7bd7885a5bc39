import { readdirSync, readFileSync } from 'node:fs'

/** Smaller patterns for addresses, for use where the surrounding pattern determines the end of the address. */
const SMALL: Readonly<Record<string, string>> = {
  IP: '[0-9A-Fa-f:.]+',
  IPORHOST: '[\\w.:-]+',
  SYSLOGHOST: '[\\w.:-]+',
  HOSTNAME: '[\\w.-]+',
}

/**
 * The standard patterns, read from `*.grok` in this folder in the format of Logstash. Each line has a name, a blank and
 * the pattern, or begins with `#` and is a comment. %{NAME} or %{NAME:field} refers to another pattern. The standard
 * patterns do not contain atomic groups, so they can be matched in linear time.
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
 * Replaces patterns of addresses with smaller patterns. With the full patterns, the many addresses in a program's
 * pattern set would exceed the limit of linear matching.
 */
function withSmallAddresses(text: string): string {
  return text.replace(/%\{(IP|IPORHOST|SYSLOGHOST|HOSTNAME)(?::([\w-]+))?\}/g, (_, name: string, field?: string) =>
    field ? `(?<${field}>${SMALL[name]})` : SMALL[name]!,
  )
}
