import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { components } from '../../../../src/components/list.js'
import type { Codec, CodecDefinition, CodecExample } from '../../../../src/core/codec.js'
import { encodeLines, RawEncoder } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import { codecOf, codecs } from '../../../../src/core/codecs/list.js'
import type { Output } from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { Ack } from '../../../../src/core/event/ack.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { BatchDecoder, encodeBatch } from '../../../../src/engine/flow/disk-buffer/record.js'
import { LettersProgress, lettersSource } from '../../../../src/engine/run/dead-letter/letters.js'
import { encodeLetters } from '../../../../src/engine/run/dead-letter/record.js'
import { sameOptions } from '../../../../src/engine/run/same-components.js'
import { checkCodec } from '../../../../src/engine/testing/check-codec.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { batchOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { agreesWithFields } from '../../../support/codecs.js'
import { testFolder } from '../../../support/folder.js'
import { problemsOf } from '../../../support/problems.js'
import { seeded } from '../../../support/seeded.js'
import { valuesOf } from '../../../support/values-of.js'

const examples = codecs.flatMap(definition =>
  definition.examples.map((example): [string, CodecDefinition, CodecExample, Codec] => [
    `${definition.name}: ${example.title}`,
    definition,
    example,
    codecOf(definition.name, parse(example.yaml) ?? {})!,
  ]),
)
const FROM = { path: '/x', peer: '192.0.2.7', host: 'h', receivedAt: 1e12 }
const REFUSED = new DeliveryError('no', { failure: 'reject', reason: 'status_422' })
const text = ({ parts }: { parts: Buffer[] }) => Buffer.concat(parts).toString('latin1')

t.test('every codec is a file of its own, and described', t => {
  t.ok(codecs.length > 0)
  for (const { name, summary, options, undecodedHelp } of codecs) {
    t.match(name, /^[a-z][a-z0-9_]*$/)
    const files = [`${name}.ts`, `${name}/${name}.ts`]
    t.ok(
      files.some(file => existsSync(join(checkout, 'src/core/codecs', file))),
      name,
    )
    for (const text of [summary, undecodedHelp]) t.match(text, /^[A-Z].*\.$/s, `${name}: a sentence`)
    for (const [option, schema] of Object.entries(options.shape))
      t.ok((schema as { description?: string }).description, `${name}: ${option} is described`)
  }
  const knowing = /(name|codec|decode)\w* === '(json|text|syslog|logfmt|csv)'/
  for (const file of [
    'core/event/batch',
    'core/event/field-reader',
    'engine/flow/source-output',
    'daemon/process/given-event',
    'engine/config/reference/reference',
  ])
    t.notMatch(readFileSync(join(checkout, `src/${file}.ts`), 'utf8'), knowing, `${file} knows no codec by name`)
  t.end()
})

t.test('a byte order mark in front of a line is no part of its fields, and stays where the line is copied', async t => {
  const mark = '\uFEFF'
  for (const [title, { form }, { line, event }, codec] of examples) {
    if (form === 'message') continue
    const lines = [mark + line, line, line, mark + line]
    const batch = batchOf(lines, { decode: codec.toJSON(), wanted: new WantedNames(), ...FROM })
    t.equal(batch.scan(), 0, `${title}: all of them are decoded`)
    for (let i = 0; i < batch.length; i++) t.match(batch.fields(i), event, title)
    t.equal(Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts).includes(mark), false, `${title}: JSON has none`)
    t.equal(
      Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts)
        .toString()
        .split('\n').length,
      5,
      `${title}: all lines`,
    )
    t.equal(
      Buffer.concat(new RawEncoder().encode([batch]).parts).toString(),
      lines.map(line => `${line}\n`).join(''),
      title,
    )
    const records = encodeLetters([batch], REFUSED, { destination: 'd', wall: 0 })
    for (const record of records.toString().trimEnd().split('\n')) t.match(JSON.parse(record).event, event, title)
    agreesWithFields(t, codec.toJSON(), [...Object.keys(event), mark], lines)
  }
})

t.test('every codec keeps to the contract, as those of plugins are held to it', async t => {
  for (const definition of codecs) t.same(await checkCodec(definition), [], definition.name)
})

t.test('what is encoded is one line, and is read as it was written', t => {
  const random = seeded(23)
  const parts = [
    'a',
    ' ',
    '"',
    "'",
    '=',
    ',',
    ';',
    '\\',
    '\n',
    '\r',
    '\t',
    '\0',
    '\u2028',
    'é',
    '\u{1f600}',
    '\x7f',
    '',
  ]
  const some = (parts: readonly string[]) =>
    Array.from({ length: random() * 6 }, () => parts[Math.floor(random() * parts.length)]!).join('')
  const others: unknown[] = [0, -1.5, 1e21, true, false, null, [1, 'a b'], { b: ['"'] }]
  for (const [title, { form, joinsLines }, { event }, codec] of examples) {
    if (!codec.encode) continue
    // Where several lines may be one event, a value may have line ends.
    const usual = joinsLines ? parts.filter(part => part !== '\n') : parts
    const names = Object.keys(event)
    for (let n = 0; n < 300; n++) {
      const fields = Object.fromEntries(
        names.map(name => [name, random() < 0.7 ? some(usual) : others[Math.floor(random() * others.length)]]),
      )
      const line = codec.encode(fields)
      const about = () => `${title}: ${JSON.stringify(fields)} is written as ${JSON.stringify(line)}`
      if (/\n|\r$/.test(line)) t.fail(`${about()}, which is several lines`)
      const batch = batchOf([line], { decode: codec.toJSON() })
      if (batch.scan() !== 0) t.fail(`${about()}, which cannot be read`)
      // Where the line has none, an event has fields of its origin.
      const own = () => codec.fields(batch.chunk, batch.starts[0]!, batch.ends[0]!, 0)
      const all = form === 'fields' ? own() : batch.fields(0)
      const read = Object.fromEntries(names.filter(name => name in all).map(name => [name, all[name]]))
      if (form === 'object' && !isDeepStrictEqual(read, fields)) t.fail(about())
      if (codec.encode(read) !== line) t.fail(`${about()}, and then as ${JSON.stringify(codec.encode(read))}`)
    }
    t.pass(title)
  }
  t.end()
})

t.test('batches, letters and copies keep the codec with its options', async t => {
  const path = join(testFolder(t), 'letters')
  for (const [title, { form }, { line }, codec] of examples) {
    const lines = [line, '\x01', Buffer.concat([Buffer.from(line), Buffer.from([0xff])]), `${'y'.repeat(90)}=${line}`]
    const make = () => batchOf(lines, { ...FROM, decode: codec.toJSON(), maxLineBytes: 80 })
    const seen = (batches: readonly EventBatch[]) => {
      const events = batches.flatMap(batch => Array.from({ length: batch.length }, (_, i) => batch.fields(i)))
      return { events, json: text(encodeLines(JSON_OBJECTS, batches)), raw: text(new RawEncoder().encode(batches)) }
    }
    const wanted = seen([make()])
    for (const looked of [false, true]) {
      const batch = make()
      if (looked) batch.scan()
      const decoder = new BatchDecoder(new WantedNames())
      const restored = decoder.decode(encodeBatch(batch), new Ack(() => {}))
      t.ok(restored.origin.codec.isSame(codec.framing ? JSON_OBJECTS : codec), title)
      t.same(seen([restored]), wanted, `${title}: from a record`)
    }
    writeFileSync(path, encodeLetters([make()], REFUSED, { destination: 'd', wall: 0 }))
    const batches: EventBatch[] = []
    const source = lettersSource(path, new LettersProgress(0))
    const checkpoints = { read: () => {}, provide: () => {}, changed: () => {} }
    const context = { id: 'l', checkpoints, origin: () => ({ wanted: new WantedNames() }) }
    const { run } = (await source.create({}, context as never)) as {
      run: (out: Output, s: AbortSignal) => Promise<void>
    }
    const out = { ack: () => new Ack(() => {}), send: async (batch: EventBatch) => void batches.push(batch) }
    await run(out, new AbortController().signal)
    const found = seen(batches)
    t.same(found.json, wanted.json, `${title}: from letters, as JSON`)
    t.equal(found.raw, wanted.raw, `${title}: from letters, raw`)
    if (form === 'fields') t.ok(batches[0]!.origin.codec.isSame(codec), title)
  }
})

const config = (source: string, destination = 'type: blackhole') =>
  parseConfig(
    `sources:\n  in: { ${source} }\ndestinations:\n  out: { inputs: [in], ${destination} }\ndata_dir: /tmp\n`,
    'c.yaml',
    { components, env: {} } as never,
  )
const problemsIn = (source: string, destination?: string) =>
  problemsOf(() => config(source, destination), { format: ({ path, message }) => `${path}: ${message}` })

t.test('every source takes every codec that it can, by name and with options', t => {
  const sources = components.filter(({ kind, options }) => kind === 'source' && 'decode' in options.shape)
  t.same(valuesOf(sources, 'type'), ['file', 'stdin', 'tcp', 'http', 'redis'])
  const rest: Record<string, string> = {
    file: ', include: [/x]',
    tcp: ', listen: "127.0.0.1:1"',
    http: ', listen: "127.0.0.1:1"',
    redis: ', url: "redis://127.0.0.1:1", stream: x',
  }
  for (const { type } of sources) {
    for (const { name } of codecs) {
      // Some cannot do without options.
      const codec = codecOf(name)
      if (!codec) continue
      if (type === 'redis' && codec.framing) {
        const problem = `sources.in.decode: cannot be ${name}, whose records are not text`
        t.same(problemsIn(`type: redis${rest.redis}, decode: ${name}`), [problem])
        continue
      }
      const decode = (value: string) =>
        (config(`type: ${type}${rest[type] ?? ''}, decode: ${value}`).sources[0]!.options as { decode: Codec }).decode
      // One codec may have two names.
      t.equal(decode(name).name, codec.name)
      t.ok(sameOptions(decode(name), decode(`{ codec: ${name} }`)), `${type} ${name}: the two forms are the same`)
    }
  }
  const csv = (options: string) => config(`type: stdin, decode: { codec: csv, ${options} }`).sources[0]!.options
  t.ok(sameOptions(csv('columns: [a]'), csv('columns: [a]')))
  t.notOk(sameOptions(csv('columns: [a]'), csv('columns: [b]')))
  t.end()
})

t.test('what is wrong with a codec is said in its place', t => {
  const names = codecs.map(({ name }) => name).join(', ')
  t.same(problemsIn('type: stdin, decode: jsn'), [
    `sources.in.decode: must be one of ${names}, not "jsn"; did you mean "json"?`,
  ])
  t.same(problemsIn('type: stdin, decode: { codec: cvs }'), [
    `sources.in.decode.codec: must be one of ${names}, not "cvs"; did you mean "csv"?`,
  ])
  t.same(problemsIn('type: stdin, decode: { codec: csv, colums: [a] }'), [
    'sources.in.decode.colums: unknown option; did you mean "columns"?',
  ])
  t.same(problemsIn('type: stdin, decode: { codec: csv, columns: [a, a] }'), [
    'sources.in.decode.columns: must not contain a name twice',
  ])
  t.same(problemsIn('type: stdin, decode: regex'), [
    'sources.in.decode: regex needs the option pattern, as in {codec: regex, pattern: …}',
  ])
  t.match(problemsIn('type: stdin, decode: { codec: grok, pattern: "%{IPP:a}" }'), [
    /^sources\.in\.decode: there is no pattern IPP; did you mean IP\?$/,
  ])
  t.match(problemsIn('type: stdin, decode: 3')[0], /^sources\.in\.decode: must be one of json, text/)
  t.match(
    problemsIn('type: stdin, decode: logfmt, multiline: { preset: java }')[0],
    /cannot be used with decode: logfmt/,
  )
  t.same(problemsIn('type: stdin, decode: csv, multiline: { preset: java }'), [])
  t.match(
    problemsIn('type: stdin', 'type: stdout, encoding: csv')[0],
    /encoding: csv cannot be written without columns/,
  )
  t.match(
    problemsIn('type: stdin', 'type: stdout, encoding: klog')[0],
    /klog can only be used to decode lines; use one of raw, json, /,
  )
  t.same(problemsIn('type: stdin', 'type: stdout, encoding: { codec: csv, columns: [a] }'), [])
  t.match(problemsIn('type: stdin', 'type: stdout, encoding: protobuf')[0], /protobuf needs the option/)
  t.end()
})
