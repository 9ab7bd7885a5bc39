import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { EventMerger } from '../../../src/core/event/event-merger.js'
import { FieldName } from '../../../src/lib/formats/field-sink.js'
import { MemberName } from '../../../src/lib/formats/json-members.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { Members } from '../../../src/lib/formats/members.js'
import { batchOf, readerOf } from '../../support/batches.js'
import { seeded } from '../../support/seeded.js'

type Found = readonly (readonly [string, unknown])[]

/** Gives each name as one that is found in a line. */
function membersOf(found: Found, members = new Members()): Members {
  members.clear()
  const name = new FieldName()
  for (const [text, value] of found) {
    const bytes = Buffer.from(`<${text}>`)
    name.at(bytes, 1, bytes.length - 1)
    const given = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
    if (typeof value === 'string') members.text(name, given, 0, given.length)
    else members.json(name, given, 0, given.length)
  }
  return members
}

t.test('fields of the same name get the new value in their place, the others follow', t => {
  const merged = (line: string | Buffer, found: Found, without?: string, decode = 'json') => {
    const wanted = new WantedNames()
    const batch = batchOf([line], { wanted, decode, host: 'h' })
    new EventMerger(wanted).merge(batch, 0, membersOf(found), without === undefined ? without : new MemberName(without))
    return batch.texts!.text(0).toString()
  }
  t.equal(
    merged(' { "a" : 1 , "b":[2],"c":"x" } ', [
      ['b', 'y'],
      ['d', 4],
    ]),
    '{"a" : 1,"b":"y","c":"x","d":4}',
  )
  t.equal(merged('{}', [['a', '"\n']]), '{"a":"\\"\\n"}')
  t.equal(merged('{}', []), '{}')
  t.equal(merged('{"a":1,"b":2}', [], 'a'), '{"b":2}')
  t.equal(merged('{"a":1}', [['b', 2]], 'a'), '{"b":2}')
  t.equal(merged('{"a":1}', [['a', 2]], 'a'), '{"a":2}', 'what is new is not removed')
  t.equal(merged('{"a":1,"\\u0062":2}', [['b', 3]]), '{"a":1,"b":3}', 'a name with escapes')
  t.equal(merged('{"a":1,"\\u0062":2}', [], 'b'), '{"a":1}')
  t.equal(
    merged('{"a":1}', [
      ['b', 1],
      ['b', 2],
    ]),
    '{"a":1,"b":2}',
    'the last of several counts',
  )
  t.equal(merged('{"a":1,"a":2}', [['a', 3]]), '{"a":3}')
  t.equal(merged('text', [['timestamp', 't']], 'message', 'text'), '{"host":"h","timestamp":"t"}')
  t.end()
})

t.test('what readers find afterwards is what the merged object has', t => {
  const random = seeded(41)
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]!
  const names = ['a', 'b', 'cc', 'é', 'x"y', '__proto__', 'n\n', ...Array.from({ length: 80 }, (_, n) => `m${n}`)]
  const values = ['', 'v', 'q"\\\n', 'é', 1.5, true, null, [1, { a: '\n' }], { a: { b: 2 } }]
  const some = (most: number): Found =>
    Array.from({ length: random() * most }, () => [pick(random() < 0.8 ? names.slice(0, 7) : names), pick(values)])
  const wanted = new WantedNames()
  const readers = ['a', 'cc', 'é', 'x"y', '__proto__', 'm3'].map(
    name => [name, readerOf(`."${name.replace('"', '\\"')}"`, wanted)] as const,
  )
  const merger = new EventMerger(wanted)
  const members = new Members()
  for (let n = 0; n < 100; n++) {
    const given = Array.from({ length: 3 }, () => some(12))
    const batch = batchOf(
      given.map(found => Object.fromEntries(found)),
      { wanted },
    )
    for (let round = 0; round < 2; round++) {
      const found = given.map((_, i) => some(i === 2 ? 200 : 8))
      const without = random() < 0.3 ? 'a' : undefined
      const expected = found.map((found, i) => {
        const fields = new Map(Object.entries(batch.fields(i)))
        if (without) fields.delete(without)
        for (const [name, value] of found) fields.set(name, value)
        return Object.fromEntries(fields)
      })
      for (const i of [2, 0, 1]) {
        merger.merge(batch, i, membersOf(found[i]!, members), without ? new MemberName(without) : undefined)
      }
      expected.forEach((fields, i) => {
        const same = (found: unknown, wanted: unknown) => isDeepStrictEqual(found, wanted) || t.same(found, wanted)
        same(JSON.parse(batch.texts!.text(i).toString()), fields)
        for (const [name, reader] of readers) {
          reader.load(batch, i)
          same(reader.value(), Object.hasOwn(fields, name) ? fields[name] : undefined)
        }
      })
    }
  }
  t.end()
})
