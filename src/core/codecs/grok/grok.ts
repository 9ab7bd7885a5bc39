import { z } from 'zod'
import { NearestName } from '../../../lib/nearest.js'
import type { Pattern } from '../../../lib/pattern.js'
import { TooLargePattern } from '../../../lib/regex/syntax.js'
import { defineCodec } from '../../codec.js'
import { reaches } from '../../options/reach.js'
import { compiledPattern, PatternCodec, type PatternField, patternOption } from '../pattern-codec.js'
import { GROK_PATTERNS } from './patterns.js'

/** Maximum nesting of patterns. Deeper nesting means that a pattern refers to itself. */
const DEEPEST = 32
const LONGEST = 64 * 1024
const MOST_OWN = 1000

const text = () => reaches('nothing', z.string().min(1))
const options = z.strictObject({
  pattern: patternOption,
  patterns: z
    .record(text(), text())
    .refine(own => Object.keys(own).every(name => /^\w+$/.test(name)), {
      error: 'must have names of letters, digits and underscores',
    })
    .refine(own => Object.keys(own).length <= MOST_OWN, { error: `must have at most ${MOST_OWN} patterns` })
    .optional()
    .describe(
      'Additional patterns by name, for use in `pattern` and in other patterns. They take precedence over the built-in ones.',
    ),
})
type Options = z.output<typeof options>

/** Matches a reference, a group with a field name, or an atomic group. Also matches escapes, so that it skips them. */
const PART = /\\[\s\S]|\(\?>|%\{(\w+)(?::([^}:]*)(?::(\w+))?)?\}|\(\?P?<(?![=!])([^>]*)>/g
/** Character classes that JavaScript lacks, for expressions with and without the flag `u`. */
const CLASSES: Readonly<Record<string, readonly [unicode: string, ascii: string]>> = {
  alnum: ['\\p{L}\\p{M}\\p{Nd}', 'A-Za-z0-9'],
  alpha: ['\\p{L}\\p{M}', 'A-Za-z'],
  blank: ['\\p{Zs}\\t', ' \\t'],
  cntrl: ['\\p{Cc}', '\\x00-\\x1f\\x7f'],
  digit: ['\\p{Nd}', '0-9'],
  lower: ['\\p{Ll}', 'a-z'],
  punct: ['\\p{P}$+<=>^`|~', '!-/:-@\\[-`{-~'],
  space: ['\\s\\x85', '\\s'],
  upper: ['\\p{Lu}', 'A-Z'],
  word: ['\\p{L}\\p{M}\\p{Nd}\\p{Pc}', '\\w'],
  xdigit: ['0-9A-Fa-f', '0-9A-Fa-f'],
}

/** Expands a pattern to a regular expression. The groups get generated names, because a field may occur twice. */
class Expansion {
  readonly fields: Omit<PatternField, 'group'>[] = []
  readonly #own: Readonly<Record<string, string>>
  #length = 0

  constructor(own: Readonly<Record<string, string>>) {
    this.#own = own
  }

  expand(pattern: string, depth = 0): string {
    if (depth > DEEPEST) throw new Error('the patterns refer to each other in a cycle')
    this.#length += pattern.length
    if (this.#length > LONGEST)
      throw new Error(`is longer than ${LONGEST} characters, including the patterns that it refers to`)
    return pattern.replace(PART, (whole, name?: string, field?: string, type?: string, group?: string) => {
      if (group !== undefined) return this.#group(group)
      if (name === undefined) return whole === '(?>' ? '(?:' : whole
      const inner = this.expand(this.#pattern(name), depth + 1)
      return field ? `${this.#group(field, type)}${inner})` : `(?:${inner})`
    })
  }

  #pattern(name: string): string {
    const pattern = Object.hasOwn(this.#own, name) ? this.#own[name] : GROK_PATTERNS.get(name)
    if (pattern !== undefined) return pattern
    const near = new NearestName().find(name, [...Object.keys(this.#own), ...GROK_PATTERNS.keys()])
    throw new Error(`there is no pattern ${name}${near ? `; did you mean ${near}?` : ''}`)
  }

  /** Returns the text that opens the group of a field. Logstash writes the nested field `a.b` as `[a][b]`. */
  #group(field: string, type?: string): string {
    if (type !== undefined && !['int', 'float', 'string'].includes(type)) {
      throw new Error(`the type of %{…:${field}:${type}} must be int, float or string`)
    }
    const name = field.startsWith('[') ? field.slice(1, -1).replaceAll('][', '.') : field
    this.fields.push({ name, ...(type === 'int' || type === 'float' ? { type } : {}) })
    return `(?<f${this.fields.length - 1}>`
  }
}

/** A dot also matches a line end, as in Logstash. */
function compiledGrok(source: string): Pattern {
  const classes = (flag: 0 | 1) =>
    source.replace(/\[:(\w+):\]/g, (whole, name: string) =>
      Object.hasOwn(CLASSES, name) ? CLASSES[name]![flag] : whole,
    )
  try {
    return compiledPattern(classes(0), 's', classes(1))
  } catch (error) {
    throw advised(error)
  }
}

/**
 * The error may be about a repetition count in a standard pattern, which the user did not write. So the error also says
 * what to replace.
 */
function advised(error: unknown): unknown {
  if (!(error instanceof Error && error.cause instanceof TooLargePattern)) return error
  const small = "patterns: { IPORHOST: '[\\w.:-]+' }"
  return new Error(
    `${error.message}; patterns of addresses are large: define a smaller pattern with the same name, as in ${small}`,
  )
}

class Grok extends PatternCodec {
  constructor(given: Options) {
    const expansion = new Expansion(given.patterns ?? {})
    const pattern = compiledGrok(expansion.expand(given.pattern))
    const fields = expansion.fields.map((field, n) => ({ ...field, group: pattern.groupNames.indexOf(`f${n}`) }))
    if (fields.length === 0) throw new Error('must have a field, as in %{IP:client}')
    super(grok, given, pattern, fields, false)
  }
}

export const grok = defineCodec({
  name: 'grok',
  summary: 'Each line matches a grok pattern: a regular expression with `%{NAME:field}` for common parts.',
  notes:
    '`%{NAME}` stands for a named pattern. `%{NAME:field}` makes the matched text a field, and `%{NAME:field:int}` or `%{NAME:field:float}` makes it a number; `(?<field>…)` also makes a field. A part that matches ' +
    'an empty text does not make a field; if a field occurs twice, the first value that is not empty counts. The pattern may match anywhere in the line: `^` and `$` match at its ends, and a dot also matches a line end within it. As for regex, matching takes time ' +
    'proportional to the length of the line. Patterns and fields are the same as in Logstash without ECS; the pattern sets of Bacula and of ECS are not included. ' +
    'Differences from Logstash:\n\n- `^` and `$` do not match at line ends within an event.\n- Atomic groups are ordinary groups.\n' +
    '- Escapes are those of JavaScript. In a pattern with other escapes or with literal braces, `[:alpha:]` and other classes contain only ASCII characters.\n' +
    '- A number may begin anywhere, and a time may lack seconds.\n- In the pattern sets of programs, an address is any text of address characters.\n' +
    '- NETSCREENSESSIONLOG also matches lines without translated addresses, a session or a reason.\n' +
    '- If a line has more columns than CLOUDFRONT_ACCESS_LOG or a BRO pattern, the additional text is in a later field, or left out: fields count from the left. Newer logs of Zeek need the ZEEK patterns.\n' +
    '- The `querytype` of BIND9 does not have flags, and the `errorcode` of HTTPD24_ERRORLOG begins with AH.\n\n' +
    `The names: ${[...GROK_PATTERNS.keys()].sort().join(', ')}.`,
  options,
  form: 'fields',
  expects: 'text that matches the pattern',
  undecodedHelp: 'Lines that do not match the pattern. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'A request, with numbers',
      yaml: "pattern: '^%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:duration:float}$'\n",
      line: '55.3.244.1 GET /index.html 15824 0.043',
      event: { client: '55.3.244.1', method: 'GET', request: '/index.html', bytes: 15824, duration: 0.043 },
    },
    {
      title: 'A pattern of its own',
      yaml: "pattern: '%{ORDER:order} by %{USER:user}'\npatterns: { ORDER: 'A-\\d+' }\n",
      line: 'placed A-1017 by ada',
      event: { order: 'A-1017', user: 'ada' },
    },
  ],
  create: parsed => new Grok(parsed),
})
