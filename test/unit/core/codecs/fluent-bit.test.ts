import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { casesOf } from '../../../support/cases.js'
import { readFields } from '../../../support/codecs.js'

/**
 * Lines that the parsers of Fluent Bit are documented with, or that their formats describe. `same`: fields of the same
 * name and value there and here. `named`: fields of another name, or of another form of the value, here.
 */
interface Parser {
  readonly parser: string
  readonly codec: Readonly<Record<string, unknown>>
  readonly line: string
  readonly same?: Readonly<Record<string, unknown>>
  readonly named?: Readonly<Record<string, readonly [there: unknown, name: string, here: unknown]>>
}

const { parsers } = casesOf<{ parsers: readonly Parser[] }>(import.meta.url)

t.test('what the documented parsers of Fluent Bit find, our codecs find', async t => {
  for (const { parser, codec, line, same = {}, named = {} } of parsers) {
    const { codec: name, ...options } = codec as { codec: string }
    const found = readFields(codecOf(name, options)!, Buffer.from(line)) as Record<string, unknown>
    for (const [field, value] of Object.entries(same)) t.equal(found[field], value, `${parser}: ${field}`)
    for (const [field, [, here, value]] of Object.entries(named))
      t.equal(found[here] ?? null, value, `${parser}: ${field} is ${here} here`)
  }
})
