import { z } from 'zod'
import { defineCodec } from '../codec.js'
import { compiledPattern, PatternCodec, type PatternField, patternOption } from './pattern-codec.js'

const options = z.strictObject({ pattern: patternOption })

class Regex extends PatternCodec {
  constructor(given: z.output<typeof options>) {
    // Python, Go and Rust write named groups as (?P<name>…).
    const pattern = compiledPattern(given.pattern.replaceAll('(?P<', '(?<'))
    const fields = pattern.groupNames.flatMap((name, group): PatternField[] =>
      name === undefined || group === 0 ? [] : [{ group, name }],
    )
    if (fields.length === 0) throw new Error('must have a group with the name of a field, as in (?<client>\\S+)')
    super(regexCodec, given, pattern, fields, true)
  }
}

export const regexCodec = defineCodec({
  name: 'regex',
  summary: 'Each line matches a regular expression, whose named groups are the fields.',
  notes:
    'The pattern is a JavaScript regular expression; `(?P<name>` means `(?<name>`. It may match anywhere in the line: `^` and `$` stand for its ends. A group that does not match ' +
    'makes no field. All fields are text. Matching takes time proportional to the length of the line. Expressions that cannot be matched in this time, such as references to groups, are an error.',
  options,
  form: 'fields',
  expects: 'text that matches the pattern',
  undecodedHelp: 'Lines that do not match the pattern. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'A duration behind an address',
      yaml: "pattern: '^(?<client>\\S+) took (?<took_ms>\\d+)ms(?: for (?<user>\\w+))?'\n",
      line: '192.0.2.7 took 12ms',
      event: { client: '192.0.2.7', took_ms: '12' },
    },
  ],
  create: parsed => new Regex(parsed),
})
