import { isUtf8 } from 'node:buffer'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import type { PathSegment } from '../../../src/core/event/field-path.js'
import {
  ARRAY_VALUE,
  BOOLEAN,
  type FieldReader,
  MISSING,
  NULL_VALUE,
  NUMBER,
  OBJECT_VALUE,
  STRING_VALUE,
  type ValueKind,
} from '../../../src/core/event/field-reader.js'
import { DECODED } from '../../../src/core/event/flags.js'
import { SLOT, scanObject, WantedNames } from '../../../src/lib/formats/json-scan.js'
import { batchOf, fieldReaderOf } from '../../support/batches.js'
import { isKnownAmiss, JsonLines, MIXES_NAMES_UP } from '../../support/json-lines.js'
import { rounds } from '../../support/long-test.js'
import { Seeded } from '../../support/seeded.js'

/** The scan and the readers are held to JSON.parse: what is an object, and what its fields are. */

const LINES = rounds(40_000, 6_000)
const IN_A_BATCH = 60

const PATHS: readonly (readonly [string, readonly PathSegment[]])[] = [
  ['.a', ['a']],
  ['.b', ['b']],
  ['.a.b', ['a', 'b']],
  ['.a.b.c', ['a', 'b', 'c']],
  ['.list[0]', ['list', 0]],
  ['.list[1].a', ['list', 1, 'a']],
  ['.a.list[2]', ['a', 'list', 2]],
  ['."x-y"', ['x-y']],
  ['."a.b"', ['a.b']],
  ['.""', ['']],
  ['."\\"".a', ['"', 'a']],
  ['."\\\\"', ['\\']],
  ['.é."😀"', ['é', '😀']],
  ['.__proto__', ['__proto__']],
  ['.__proto__.a', ['__proto__', 'a']],
  ['.constructor', ['constructor']],
  ['.toString', ['toString']],
  ['.a.length', ['a', 'length']],
  ['.raw', ['raw']],
]

/** Not fields, though JavaScript has members of these names. */
const NEVER = new Set(['.toString', '.a.length'])

const MARK = Buffer.from('\ufeff')

/** The object that JSON.parse makes of the line, or undefined when it is none. */
function parsed(line: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

function follow(value: unknown, segments: readonly PathSegment[]): unknown {
  for (const segment of segments) {
    const fits = typeof value === 'object' && value !== null && Array.isArray(value) === (typeof segment === 'number')
    value = fits ? Object.getOwnPropertyDescriptor(value, segment)?.value : undefined
  }
  return value
}

function kindOf(value: unknown): ValueKind {
  if (value === undefined) return MISSING
  if (value === null) return NULL_VALUE
  if (Array.isArray(value)) return ARRAY_VALUE
  return { string: STRING_VALUE, number: NUMBER, boolean: BOOLEAN, object: OBJECT_VALUE }[
    typeof value as 'string'
  ] as ValueKind
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** What is wrong with what the reader says, or undefined. */
function difference(reader: FieldReader, value: unknown): string | undefined {
  if (reader.kind !== kindOf(value)) return `kind ${reader.kind}`
  const same = typeof value === 'object' ? isDeepStrictEqual(reader.value(), value) : Object.is(reader.value(), value)
  if (!same) return `value ${JSON.stringify(reader.value())}`
  const text = textOf(value)
  // Numbers that a double cannot hold stay as they were written.
  const written =
    typeof value === 'object' && value !== null ? JSON.stringify(JSON.parse(reader.text())) : reader.text()
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value)
  if (isLarge && /^-?\d+$/.test(written)) return Number(written) === value ? undefined : `text ${written}`
  if (written !== text) return `text ${reader.text()}`
  if (reader.plain && reader.bytes.toString('utf8', reader.start, reader.end) !== text) return 'plain, but other bytes'
  if (typeof value === 'number' && !Object.is(reader.number(), value)) return `number ${reader.number()}`
  return undefined
}

t.test(`${LINES} generated lines mean what JSON.parse says, wherever they stand in a chunk`, async t => {
  const random = new Seeded(20_250_101)
  const source = new JsonLines(random)
  const wanted = new WantedNames()
  const readers = PATHS.map(([path]) => fieldReaderOf(path, wanted))
  let objects = 0
  const found = PATHS.map(() => 0)
  const wrong: string[] = []
  for (let done = 0; done < LINES; done += IN_A_BATCH) {
    const lines: Buffer[] = []
    while (lines.length < IN_A_BATCH) {
      const line = source.line()
      // A CR at the end of a line would be taken as part of its line end.
      lines.push(line.at(-1) === 0x0d ? Buffer.concat([line, Buffer.from(' ')]) : line)
    }
    const batch = batchOf(lines, { wanted })
    for (let i = 0; i < batch.length; i++) {
      const line = lines[i]!
      // The codec skips a byte order mark in front of a line.
      const read = parsed(line.subarray(0, 3).equals(MARK) ? line.subarray(3) : line)
      // An event whose line is not UTF-8 is written anew, so its numbers are those that JSON.stringify writes.
      const fields = read && !isUtf8(line) ? parsed(Buffer.from(JSON.stringify(read))) : read
      const isObject = (batch.look(i) & DECODED) !== 0
      if (isObject !== (fields !== undefined)) wrong.push(`${line}: ${isObject ? 'taken' : 'refused'}`)
      if (!fields || !isObject || isKnownAmiss(line)) continue
      objects++
      if (!isUtf8(line)) Object.defineProperty(fields, 'raw', { value: line.toString('base64'), enumerable: true })
      for (const [at, [path, segments]] of PATHS.entries()) {
        const reader = readers[at]!
        reader.load(batch, i)
        const value = follow(fields, segments)
        if (value !== undefined) found[at]!++
        const problem = difference(reader, value)
        if (problem) wrong.push(`${line}: ${path}: ${problem}`)
      }
    }
    if (wrong.length > 20) break
  }
  t.same(wrong, [])
  t.ok(objects > LINES * (MIXES_NAMES_UP ? 0.2 : 0.4) && objects < LINES * 0.9, `${objects} objects`)
  for (const [at, [path]] of PATHS.entries()) {
    if (!NEVER.has(path) && !MIXES_NAMES_UP) t.ok(found[at]! >= LINES / 2000, `${path} was there ${found[at]} times`)
  }
})

t.test('bytes before and behind a line do not matter, nor does the end of the buffer', async t => {
  const random = new Seeded(7)
  const source = new JsonLines(random)
  const wanted = new WantedNames()
  for (const name of ['a', 'b', 'x-y', 'é', '__proto__']) wanted.slot(name)
  const wrong: string[] = []
  for (let done = 0; done < LINES / 2 && wrong.length < 20; done++) {
    const line = source.line()
    // LF is white space like any other to the scan itself.
    for (let p = 0; p < line.length; p++) if (line[p] === 0x0d && random.chance(0.5)) line[p] = 0x0a
    const before = random.pick(['', '\n', '{"a":1}\n', '"', '\\', '{"a":'])
    const behind = random.pick([
      '',
      '\n',
      '\r\n',
      '"',
      '}',
      ':1}',
      ',"a":2}',
      '0',
      '\\u0041"}',
      '{"a":1}',
      'e',
      ' \n',
      '\u0000',
      'xxxxxxxx',
    ])
    const chunk = new Uint8Array(Buffer.concat([Buffer.from(before), line, Buffer.from(behind)]))
    const start = before.length
    const end = start + line.length
    const at = random.below(3) * SLOT
    const out = new Int32Array(at + wanted.names.length * SLOT)
    const fields = parsed(line)
    if (scanObject(chunk, start, end, wanted, out, at) !== (fields !== undefined))
      wrong.push(`${line} before ${behind}`)
    if (!fields || isKnownAmiss(line)) continue
    for (const [slot, name] of wanted.names.entries()) {
      const valueStart = out[at + slot * SLOT]!
      const valueEnd = out[at + slot * SLOT + 1]! >> 1
      const text = valueStart === 0 ? undefined : Buffer.from(chunk.subarray(valueStart, valueEnd)).toString()
      const value = Object.getOwnPropertyDescriptor(fields, name)?.value as unknown
      if (!isDeepStrictEqual(text === undefined ? undefined : JSON.parse(text), value))
        wrong.push(`${line}: ${name}: ${text}`)
      // A name that is written twice, or with an escape, may occur twice.
      const mayOccurTwice = line.includes(0x5c) || String(line).split(JSON.stringify(name)).length > 2
      const isSpecial = (out[at + slot * SLOT + 1]! & 1) === 1
      const expected = text?.includes('\\') === true || (mayOccurTwice && isSpecial)
      if (typeof value === 'string' && isSpecial !== expected) {
        wrong.push(`${line}: ${name}: escaped`)
      }
    }
  }
  t.same(wrong, [])
})

t.test('deep nesting costs no stack', async t => {
  const random = new Seeded(3)
  const source = new JsonLines(random)
  for (const depth of [1, 63, 64, 65, 1000, 10_000, 200_000]) {
    const wanted = new WantedNames()
    const whole = fieldReaderOf('.a', wanted)
    const line = source.deep(depth)
    const batch = batchOf([line, line.subarray(0, -1), Buffer.concat([line, Buffer.from('}')])], { wanted })
    t.same(
      [0, 1, 2].map(i => (batch.look(i) & DECODED) !== 0),
      [true, false, false],
      `${depth} levels`,
    )
    whole.load(batch, 0)
    t.equal(whole.text(), line.toString('utf8', 5, line.length - 1), `the text of ${depth} levels`)
  }
})
