import type { Codec, CodecDefinition, CodecExample } from '../../core/codec.js'
import { encodeLines, RawEncoder } from '../../core/codecs/encode.js'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import { SLOT, WantedNames } from '../../lib/formats/json-scan.js'
import { FramedSplitter } from '../../lib/lines/framed-splitter.js'
import { batchOf } from './batches.js'
import { agreesWithFields } from './codec-agreement.js'
import { type Findings, findingsOf, optionsOf } from './findings.js'

const FROM = { path: '/x', peer: '192.0.2.7', host: 'h', receivedAt: 1e12 }
const LONG_BYTES = 2 ** 20
const LONGEST_CPU_MICROS = 500_000

interface Subject {
  readonly codec: Codec
  readonly example: CodecExample
  readonly found: Findings
}

const CHECKS: Readonly<Record<string, (subject: Subject) => void>> = {
  'its example': readsItsExample,
  'its record': readsItsRecord,
  'an encoded event is one line, and decodes to the same fields': writesWhatItReads,
  'empty lines, blanks and line ends are lines': readsBlanks,
  'a scan writes only into its own slots': keepsToItsSlots,
  'every line of any bytes is an event': readsAnyBytes,
  'a line of 1 MiB of any shape takes little time': isLinear,
}

/**
 * Checks that a codec keeps its contract, with the options of each of its examples. `scan`, `fields` and `encode` must
 * agree for any bytes and take linear time. Resolves with the violations; empty if there are none.
 */
export async function checkCodec(definition: CodecDefinition): Promise<string[]> {
  const all: string[] = []
  for (const example of definition.examples)
    for (const [name, check] of Object.entries(CHECKS)) {
      const title = `${definition.name}, ${example.title}: ${name}`
      const found = await findingsOf(title, own => {
        const codec = definition.create(definition.options.parse(optionsOf(example.yaml)) as never)
        check({ codec, example, found: own })
      })
      all.push(...found)
    }
  return all
}

const text = ({ parts }: { parts: Buffer[] }) => Buffer.concat(parts).toString('latin1')
const jsonOf = (batch: ReturnType<typeof batchOf>) =>
  text(encodeLines(JSON_OBJECTS, [batch]))
    .split('\n')
    .slice(0, -1)

function readsItsExample({ codec, example: { yaml, line, event }, found }: Subject): void {
  const { form } = codec
  const { codec: _, ...options } = codec.toJSON() as { codec: string }
  const again = codec.definition.options.safeParse(options)
  found.same(again.data, codec.definition.options.parse(optionsOf(yaml)), 'the options that it keeps')
  const isSame = again.success && codec.definition.create(again.data as never).isSame(codec)
  found.ok(isSame, 'parsing the options again gives another codec')
  const batch = batchOf([line], { ...FROM, decode: codec })
  found.same(batch.scan(), 0, 'lines that it cannot read')
  const { path: file, peer } = FROM
  const host = codec.definition.hostIsSender ? peer : FROM.host
  const origin = form === 'object' ? {} : { file, peer, host, timestamp: new Date(FROM.receivedAt).toISOString() }
  found.same(batch.fields(0), { ...origin, ...event }, 'the event')
  if (form !== 'object') agreesWithFields(found, codec, [...Object.keys(event), 'file', 'nothing'], [line, 'x'])
  const known = codec.eventFields
  for (const name of known ? Object.keys(event) : [])
    found.ok(
      [...known!.names, 'message'].includes(name) || Boolean(known!.others?.test(name)),
      `eventFields lack ${name}`,
    )
}

function readsItsRecord({ codec, example: { line, record }, found }: Subject): void {
  const { framing } = codec
  if (!framing || record === undefined) {
    found.same(
      [record, framing],
      [undefined, undefined],
      'with framing, every example needs a record; without framing, it must not have one',
    )
    return
  }
  const bytes = Buffer.from(record.replaceAll(' ', ''), 'hex')
  const splitter = new FramedSplitter(framing, LONG_BYTES)
  const frames = [...Array.from(bytes, (_, i) => splitter.push(bytes.subarray(i, i + 1))), splitter.push(bytes)]
  const lines = frames.flatMap(frame => (frame ? [frame.chunk.toString('utf8', 0, frame.bytes)] : []))
  found.same(lines, [`${line}\n`, `${line}\n`], 'the lines of its records')
}

function writesWhatItReads({ codec, example: { event }, found }: Subject): void {
  if (!codec.encode) return
  const awkward = ['', ' ', '"', "'", '=', ',', '\\', '\r', '\t', '\0', 'é', '\u{1f600}', 'a b', 0, -1.5, true, null]
  const values: unknown[] = codec.definition.joinsLines ? awkward : [...awkward, 'a\nb']
  for (const value of [undefined, ...values]) {
    const fields = value === undefined ? event : Object.fromEntries(Object.keys(event).map(name => [name, value]))
    const line = codec.encode(fields)
    const about = `${JSON.stringify(fields)}, written as ${JSON.stringify(line)}`
    found.ok(!/\n|\r$/.test(line), `${about}: more than one line`)
    const batch = batchOf([line], { decode: codec })
    found.same(batch.scan(), 0, `${about}: lines that it cannot read`)
    const [chunk, start, end] = [batch.chunk, batch.starts[0]!, batch.ends[0]!]
    // Compares only the fields of the line. The event also has fields that describe its origin.
    const all = codec.form === 'fields' ? codec.fields(chunk, start, end, FROM.receivedAt) : batch.fields(0)
    const names = Object.keys(event).filter(name => name in all)
    found.same(
      codec.encode(Object.fromEntries(names.map(name => [name, all[name]]))),
      line,
      `${about}: read and written`,
    )
  }
}

function readsBlanks({ codec, example: { line }, found }: Subject): void {
  found.same(batchOf([], { decode: codec }).scan(), 0, 'lines that it cannot read in an empty batch')
  const lines = ['', ' ', '\r', '\t', line, '']
  const json = jsonOf(batchOf(lines, { ...FROM, decode: codec }))
  found.same(json.length, lines.length, 'events')
  for (const event of json) found.same(typeof JSON.parse(event), 'object', 'the type of an event as JSON')
  agreesWithFields(found, codec, ['message', 'a'], lines)
}

function keepsToItsSlots({ codec, example: { line, event }, found }: Subject): void {
  const wanted = new WantedNames()
  for (const name of [...Object.keys(event), 'nothing']) wanted.slot(name)
  const bytes = Buffer.from(`before ${line} behind`)
  const out = new Int32Array((wanted.names.length + 2) * SLOT).fill(-7)
  out.fill(0, SLOT, -SLOT)
  const last = 7 + Buffer.byteLength(line)
  found.ok(codec.scan(bytes, 7, last, wanted, out, SLOT), 'it cannot read its line between other bytes')
  found.same([...out.subarray(0, SLOT), ...out.subarray(-SLOT)], new Array(2 * SLOT).fill(-7), 'other slots')
  for (let n = 0; n < wanted.names.length; n++) {
    const [start, end] = [out[SLOT * (n + 1)]! - 1, out[SLOT * (n + 1) + 1]! >> 1]
    found.ok(start < 0 || (start >= 7 && end <= last), `the slot of ${wanted.names[n]} is outside of the line`)
  }
}

function readsAnyBytes({ codec, example: { event }, found }: Subject): void {
  const alphabet = Buffer.from('\0\t "=\\,;{}[]<1>:a\xc3\xa9\xff', 'latin1')
  // Any sequence is good enough if it does not repeat soon.
  const lines = Array.from({ length: 300 }, (_, i) =>
    Buffer.from(Array.from({ length: i % 12 }, (_, k) => alphabet[(i * 7919 + k * k * 31 + k * i) % alphabet.length]!)),
  )
  const names = ['a', 'message', 'host', ...Object.keys(event).slice(0, 2)]
  agreesWithFields(found, codec, codec.form === 'object' ? [] : names, lines)
  const batch = batchOf(lines, { ...FROM, decode: codec })
  const json = jsonOf(batch)
  found.same(json.length, lines.length, 'events')
  for (const line of json) JSON.parse(line)
  const raw = Buffer.concat(lines.flatMap(line => [line, Buffer.from('\n')])).toString('latin1')
  found.same(text(new RawEncoder().encode([batch])), raw, 'the lines as they were read')
}

function isLinear({ codec, found }: Subject): void {
  const shapes = [
    'a ',
    'a=1 ',
    '"',
    'a="',
    '\\',
    '= ',
    `a="${'\\"'.repeat(100)}" `,
    ',',
    '"",',
    '<1>',
    '[a b="c"]',
    '{"a":',
  ]
  for (const shape of shapes) {
    const batch = batchOf([shape.repeat(LONG_BYTES / shape.length)], { decode: codec })
    const before = process.cpuUsage().user
    batch.scan()
    const took = process.cpuUsage().user - before
    found.ok(took < LONGEST_CPU_MICROS, `${JSON.stringify(shape.slice(0, 9))} repeated takes ${took / 1000} ms`)
  }
}
