import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { encodeLines, eventText, RawEncoder } from '../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../src/core/codecs/json.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import { ChangedTexts } from '../../../src/core/event/changed-texts.js'
import { type EditedField, EventEditor } from '../../../src/core/event/event-editor.js'
import type { Fields } from '../../../src/core/event/event-fields.js'
import { EventMerger } from '../../../src/core/event/event-merger.js'
import { parseFieldPath, valueAt } from '../../../src/core/event/field-path.js'
import { MODIFIED } from '../../../src/core/event/flags.js'
import { BatchDecoder, encodeBatch } from '../../../src/engine/flow/disk-buffer/record.js'
import { FieldName } from '../../../src/lib/formats/field-sink.js'
import { MemberName } from '../../../src/lib/formats/json-members.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { FieldMembers } from '../../../src/lib/formats/members.js'
import { batchOf, fieldReaderOf } from '../../support/batches.js'
import { type Edit, edit, edited, randomEdit } from '../../support/edits.js'
import { isKnownAmiss, JsonLines, MIXES_NAMES_UP } from '../../support/json-lines.js'
import { rounds } from '../../support/long-test.js'
import { Seeded, seeded } from '../../support/seeded.js'

const PATHS = [
  ...['.a', '.b', '.c', '.new', '."é"', '."\\""', '."\\\\"', '.__proto__', '.list', '."a.b"', '.message', '.host'],
  ...['.a.b', '.a.c', '.a.a.b', '.b.new.x', '.list[0]', '.list[1]', '.list[0].a', '.a.b.c', '.__proto__.a', '.raw'],
]

function prepared(paths = PATHS.filter(path => !MIXES_NAMES_UP || !path.includes('\\'))) {
  const wanted = new WantedNames()
  const editor = new EventEditor(wanted)
  const fields = paths.map((path, i) => editor.field(parseFieldPath(path), i % 5 !== 4))
  const readers = paths.map(path => ({ segments: parseFieldPath(path).segments, reader: fieldReaderOf(path, wanted) }))
  return { wanted, editor, fields, readers }
}

/** A line whose names the engine reads rightly. */
const readable = (line: Buffer) => (isKnownAmiss(line) ? Buffer.from('{"a":1}') : line)
const json = (batch: EventBatch) => Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).toString()

/** Of about four events, each with about two changes. */
const ROUNDS = rounds(1200, 300)

/** The first difference between changes of random lines and of the decoded objects; undefined if there is none. */
function difference(round: number, random: Seeded, { wanted, editor, fields, readers }: ReturnType<typeof prepared>) {
  const lines = new JsonLines(random)
  const decode = random.pick(['json', 'json', 'json', 'json', 'text', 'logfmt'])
  const input = Array.from({ length: 1 + random.below(8) }, () => readable(lines.line()))
  const batch = batchOf(input, { decode, maxLineBytes: random.pick([40, 1e6]), wanted, path: '/x' })
  const objects = Array.from({ length: batch.length }, (_, i) => structuredClone(batch.fields(i)))
  if (random.chance(0.2)) batch.modify(0, objects[0]!)
  const copy = batch.fork()
  const unchanged = json(copy)
  const log: unknown[] = []
  const differs = (what: string, is: unknown, expected: unknown) =>
    JSON.stringify(is) === JSON.stringify(expected)
      ? undefined
      : JSON.stringify({ round, decode, input: input.map(String), log, what, is, expected }, undefined, 1)
  for (let i = 0; i < batch.length; i++) {
    for (let opens = random.below(3); opens > 0; opens--) {
      editor.open(batch, i)
      for (let edits = 1 + random.below(4); edits > 0; edits--) {
        const one = randomEdit(random, fields)
        const after = edited(objects[i]!, one)
        log.push([i, one.what, one.field.path.text, one.to.path.text, one.value])
        const isChanged = edit(editor, one)
        if (isChanged !== (after !== undefined)) return differs('result', isChanged, !isChanged)
        objects[i] = after ?? objects[i]!
      }
      editor.close()
      const found = differs('event', batch.fields(i), objects[i])
      if (found) return found
    }
    for (const { segments, reader } of readers) {
      reader.load(batch, i)
      const found = differs(`read ${segments}`, reader.value(), valueAt(objects[i], segments))
      if (found) return found
    }
  }
  const encoded = json(batch).split('\n').slice(0, -1)
  return (
    differs(
      'JSON',
      encoded.map(line => JSON.parse(line)),
      objects,
    ) ?? differs('copy', json(copy), unchanged)
  )
}

t.test('changes of random lines are those of the decoded objects, as read and as encoded', async t => {
  const random = new Seeded(20)
  const all = prepared()
  for (let round = 0; round < ROUNDS; round++) {
    const found = difference(round, random, all)
    if (found) return t.equal(found, undefined)
  }
  t.pass(`${ROUNDS} batches`)
})

t.test('every sequence of three changes of a small object', async t => {
  const { wanted, editor, fields } = prepared(['.a', '.b', '.c', '.d', '.a.x', '.b.x'])
  const value = 'new'
  const [a, b, c, d, ax, bx] = fields as [EditedField, EditedField, EditedField, EditedField, EditedField, EditedField]
  const edits: Edit[] = [
    ...[a, b, c, ax].map(field => ({ what: 'remove' as const, field, to: field, value })),
    ...[a, d, ax, bx].map(field => ({ what: 'set' as const, field, to: field, value })),
    ...[[a, b] as const, [b, a] as const, [c, d] as const, [a, bx] as const, [ax, c] as const].map(([field, to]) => ({
      ...{ what: 'rename' as const, field, to, value },
    })),
  ]
  const sequences = edits.flatMap(one => edits.flatMap(two => edits.map(three => [one, two, three])))
  for (const line of ['{"a":{"x":1},"b":2,"c":3}', ' { "a" : { "x" : 1 } , "b" : 2 } ', '{"a":1}', '{}']) {
    const batch = batchOf(new Array(sequences.length).fill(line), { wanted })
    for (const [i, sequence] of sequences.entries()) {
      let object = JSON.parse(line)
      editor.open(batch, i)
      for (const one of sequence) {
        object = edited(object, one) ?? object
        edit(editor, one)
      }
      editor.close()
      if (JSON.stringify(batch.fields(i)) === JSON.stringify(object)) continue
      const made = sequence.map(({ what, field, to }) => `${what} ${field.path.text} ${to.path.text}`)
      return t.same([line, made, batch.fields(i)], [line, made, object])
    }
  }
  t.pass(`${sequences.length} sequences of four objects`)
})

t.test('a name that occurs twice is removed and renamed as one, also after it was set', async t => {
  const { wanted, editor, fields } = prepared(['.a', '.b'])
  const [a, b] = fields as [EditedField, EditedField]
  const line = '{"a":"x","n":1,"a":"y"}'
  const batch = batchOf([line, line, '{"\\u0061":1,"a":2}'], { wanted })
  for (let i = 0; i < batch.length; i++) {
    editor.open(batch, i)
    editor.set(a, 'new')
    editor.close()
    editor.open(batch, i)
    if (i === 1) editor.rename(a, b)
    else editor.remove(a)
    editor.close()
  }
  t.equal(json(batch), '{"n":1}\n{"b":"new","n":1}\n{}\n')
})

t.test('where a name occurs twice, its object keeps the bytes of the values that count', async t => {
  const { wanted, editor, fields } = prepared(['.a', '.b', '.o.a', '.o.b', '.n'])
  const [a, b, inner, other, n] = fields as [EditedField, EditedField, EditedField, EditedField, EditedField]
  const changes: [string, () => void, string][] = [
    ['{"a":1,"id": 12345678901234567890 ,"a":2}', () => editor.remove(a), '{"id": 12345678901234567890}'],
    ['{"x":1.50,"a":1,"x":2.50,"a":{"k": 1}}', () => editor.rename(a, b), '{"x":2.50,"b":{"k": 1}}'],
    ['{"b":1.0,"a":1.50,"b":2}', () => editor.rename(a, b), '{"b":1.50}'],
    ['{"o":{"a":1,"n":1e2,"a":2},"n": 1.0}', () => editor.remove(inner), '{"o":{"n":1e2},"n": 1.0}'],
    ['{"o": {"a":1, "a":2.0} ,"n": 1.0}', () => editor.rename(inner, other), '{"o": {"b":2.0} ,"n": 1.0}'],
    ['{"a":1,"a":2,"n":1.0}', () => editor.setJson(n, Buffer.from('2.0')) && editor.remove(a), '{"n":2.0}'],
    ['{"a":1,"a":2}', () => editor.remove(a), '{}'],
  ]
  for (const [line, change, expected] of changes) {
    const batch = batchOf([line], { wanted })
    editor.open(batch, 0)
    change()
    editor.close()
    t.equal(json(batch), `${expected}\n`, line)
  }
})

t.test('what a field cannot be set to', async t => {
  const { wanted, editor, fields } = prepared(['.a', '.b'])
  const [a, b] = fields as [EditedField, EditedField]
  const batch = batchOf(['{"a":1}', '{"a":2}'], { wanted })
  editor.open(batch, 0)
  editor.set(b, 'dropped')
  t.throws(() => editor.set(a, undefined), { message: 'undefined cannot be the value of a field' })
  t.throws(() => editor.set(a, 1n), TypeError)
  editor.open(batch, 1)
  t.notOk(editor.remove(b), 'it is not there')
  t.notOk(editor.close(), 'nothing was changed')
  t.equal(json(batch), '{"a":1}\n{"a":2}\n', 'what was not closed is dropped')
})

t.test('a rename that is not possible leaves the changes before it, in every event of a batch', async t => {
  const { wanted, editor, fields } = prepared(['.a.x', '.a.y.z', '.c'])
  const [x, z, c] = fields as [EditedField, EditedField, EditedField]
  const lines = Array.from({ length: 50 }, (_, n) => JSON.stringify({ a: { x: n, y: 'text' }, more: 'x'.repeat(n) }))
  const batch = batchOf(lines, { wanted })
  for (let i = 0; i < batch.length; i++) {
    editor.open(batch, i)
    editor.set(c, i)
    t.notOk(editor.rename(x, z))
    editor.close()
  }
  t.same(
    json(batch).trimEnd().split('\n'),
    lines.map((line, n) => line.replace(/}$/, `,"c":${n}}`)),
  )
})

t.test('what is not changed keeps its bytes', async t => {
  const { wanted, editor, fields } = prepared(['.a', '.b', '.new', '.x'])
  const [a, b, added, x] = fields as [EditedField, EditedField, EditedField, EditedField]
  const batch = batchOf(['{"x": 1.50,"a":12345678901234567890, "b":"\\u0041","y":[ ]}'], { wanted })
  editor.open(batch, 0)
  editor.remove(b)
  editor.rename(x, b)
  editor.set(added, null)
  editor.close()
  t.equal(json(batch), '{"b": 1.50,"a":12345678901234567890, "y":[ ],"new":null}\n')
  editor.open(batch, 0)
  editor.setJson(a, Buffer.from('x-0x'), 1, 3)
  editor.close()
  t.equal(json(batch), '{"b": 1.50,"a":-0, "y":[ ],"new":null}\n')
  t.equal(batch.size(0), 59, 'the size is that of the line as it was read')
})

t.test('changed events stay what they are, whatever happens to their batches', async t => {
  const random = new Seeded(21)
  const { wanted, editor, fields, readers } = prepared()
  const decoder = new BatchDecoder(wanted)
  for (let round = 0; round < ROUNDS / 2; round++) {
    const input = Array.from({ length: 1 + random.below(30) }, (_, n) => ({ a: n, b: { c: n }, list: [n], é: 'x' }))
    const decode = random.pick(['json', 'json', 'text'])
    const batch = batchOf(input, { wanted, decode })
    const held = [{ batch, objects: Array.from(input, (_, i) => structuredClone(batch.fields(i))) }]
    const log: unknown[] = [decode]
    const change = (one: EventBatch, objects: Fields[]) => {
      for (let n = 0; n < one.length; n++) {
        if (random.chance(0.5)) continue
        editor.open(one, n)
        const made = randomEdit(random, fields)
        objects[n] = edited(objects[n]!, made) ?? objects[n]!
        edit(editor, made)
        editor.close()
      }
    }
    for (let steps = 1 + random.below(8); steps > 0; steps--) {
      const at = random.below(held.length)
      const { batch: one, objects } = held[at]!
      const what = random.pick(['change', 'change', 'fork', 'retain', 'compact', 'restore', 'each', 'object', 'record'])
      log.push([at, what])
      if (what === 'change') change(one, objects)
      else if (what === 'fork') {
        const from = random.below(one.length + 1)
        held.push({ batch: one.fork(from), objects: objects.slice(from) })
      } else if (what === 'retain') {
        const kept = objects.map(() => random.chance(0.6))
        const left = objects.filter((_, i) => kept[i])
        if (random.chance(0.5)) one.retain(i => kept[i]!)
        else {
          const bytes = kept.reduce((sum, keep, i) => sum + (keep ? one.size(i) : 0), 0)
          one.retainZeros(
            Uint8Array.from(kept, keep => (keep ? 0 : 1)),
            left.length,
            bytes,
          )
        }
        objects.splice(0, objects.length, ...left)
      } else if (what === 'compact') one.compact()
      else if (what === 'restore') {
        one.remember()
        change(one, [...objects])
        if (one.length > 0 && random.chance(0.5)) one.modify(0, { changed: true })
        one.restore()
      } else if (what === 'each') {
        for (let i = 0; i < one.length; i++) {
          const alone = one.snapshot(i, i + 1)
          const own = [objects[i]!]
          change(alone, own)
          if (random.chance(0.2)) alone.modify(0, (own[0] = { changed: i }))
          one.takeOver(alone, i)
          objects[i] = own[0]!
        }
      } else if (what === 'object' && one.length > 0) {
        const i = random.below(one.length)
        objects[i] = { ...objects[i], changed: i }
        one.modify(i, objects[i]!)
      } else if (what === 'record') {
        held[at] = { batch: decoder.decode(encodeBatch(one), one.ack), objects }
      }
    }
    for (const { batch: one, objects } of held) {
      const expected = objects.map(object => JSON.stringify(object))
      const is = Array.from({ length: one.length }, (_, i) => JSON.stringify(one.fields(i)))
      const encoded = json(one).split('\n').slice(0, -1)
      const raw = Buffer.concat(new RawEncoder().encode([one]).parts)
        .toString()
        .split('\n')
        .slice(0, -1)
      const alone = objects.map((_, i) => eventText(JSON_OBJECTS, one, i))
      const unlike = readers.filter(({ segments, reader }) =>
        objects.some((object, i) => {
          reader.load(one, i)
          return JSON.stringify(reader.value()) !== JSON.stringify(valueAt(object, segments))
        }),
      )
      const changed = objects.flatMap((_, i) => (one.flags[i]! & MODIFIED ? [i] : []))
      const bytes = objects.reduce((sum, _, i) => sum + one.size(i), 0)
      const seen = [is, encoded, alone, changed.map(i => raw[i]), unlike.length, bytes]
      const wanted = [expected, expected, expected, changed.map(i => expected[i]), 0, one.bytes]
      if (JSON.stringify(seen) !== JSON.stringify(wanted)) return t.same([round, log, seen], [round, log, wanted])
    }
  }
  t.pass('600 batches')
})

t.test('texts that are much longer than their lines are moved only a few times', async t => {
  const events = 20_000
  const texts = ChangedTexts.of(events, Buffer.alloc(0), new WantedNames())
  const text = Buffer.alloc(1000, 'x')
  const arenas = new Set<Buffer>()
  for (let i = 0; i < events; i++) {
    // All lines together have a byte for each event.
    const at = texts.reserve(text.length, events)
    text.copy(texts.bytes, at)
    texts.end(at + text.length)
    texts.set(i, at, at + text.length)
    arenas.add(texts.bytes)
  }
  t.ok(arenas.size < 20, `${arenas.size} times`)
  for (const i of [0, 1, events - 1]) t.ok(texts.text(i).equals(text))
})

type Found = readonly (readonly [string, unknown])[]

/** Gives each name as one that is found in a line. */
function membersOf(found: Found, members = new FieldMembers()): FieldMembers {
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
    name => [name, fieldReaderOf(`."${name.replace('"', '\\"')}"`, wanted)] as const,
  )
  const merger = new EventMerger(wanted)
  const members = new FieldMembers()
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
