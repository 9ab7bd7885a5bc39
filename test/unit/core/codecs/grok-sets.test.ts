import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { casesOf } from '../../../support/cases.js'
import { readFields } from '../../../support/codecs.js'

type Line = readonly [pattern: string, line: string, fields: Readonly<Record<string, string>>]
const { lines, others } = casesOf<{ lines: readonly Line[]; others: readonly (readonly [string, string])[] }>(
  import.meta.url,
)

t.test('the sets of programs read lines made by their documented formats', async t => {
  for (const [pattern, line, fields] of lines) {
    const codec = codecOf('grok', { pattern: `^%{${pattern}}` })!
    t.match(readFields(codec, Buffer.from(line)) ?? 'no match', fields, `${pattern}: ${line.slice(0, 60)}`)
  }
})

t.test('a pattern of a set does not read the lines of another message', async t => {
  for (const [pattern, line] of others)
    t.equal(readFields(codecOf('grok', { pattern: `^%{${pattern}:f}` })!, Buffer.from(line)), undefined, pattern)
})
