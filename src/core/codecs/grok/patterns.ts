import { readdirSync, readFileSync } from 'node:fs'

/** What stands for patterns that are large, where what is around them says where they end. */
const SMALL: Readonly<Record<string, string>> = {
  IP: '[0-9A-Fa-f:.]+',
  IPORHOST: '[\\w.:-]+',
  SYSLOGHOST: '[\\w.:-]+',
  HOSTNAME: '[\\w.-]+',
}

/**
 * The patterns by the usual names, of the files `*.grok` beside this one. They have the form of Logstash: a name, a blank
 * and the pattern, or `#` and a comment. They refer to one another as %{NAME}, or as %{NAME:field}. They are written for
 * linear matching: without atomic groups.
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

/** The sets of programs name so many addresses that they would not stay within what matches in linear time. */
function withSmallAddresses(text: string): string {
  return text.replace(/%\{(IP|IPORHOST|SYSLOGHOST|HOSTNAME)(?::([\w-]+))?\}/g, (_, name: string, field?: string) =>
    field ? `(?<${field}>${SMALL[name]})` : SMALL[name]!,
  )
}
