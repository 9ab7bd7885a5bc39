import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { parse } from '../../../../src/components/processors/parse.js'
import { encodeLines } from '../../../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { STRING_VALUE } from '../../../../src/core/event/field-reader.js'
import { DECODED, SCANNED } from '../../../../src/core/event/flags.js'
import { SLOT, WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { theKernel } from '../../../../src/lib/kernel/kernel.js'
import { isInChunkMemory } from '../../../../src/lib/lines/chunk-memory.js'
import { LINE_END } from '../../../../src/lib/lines/line-splitter.js'
import { batchOf, fieldReaderOf, linesOf, originOf } from '../../../support/batches.js'
import { checkout } from '../../../support/checkout.js'
import { fieldDifferences } from '../../../support/field-differences.js'
import { lineDifferences } from '../../../support/line-differences.js'
import { rounds } from '../../../support/long-test.js'
import { pooledLines } from '../../../support/pooled-batch.js'
import { chunkOf, scanDifferences } from '../../../support/scan-differences.js'
import { loadedStageOf } from '../../../support/stage.js'

const FLAGS = { skipped: 0, ended: LINE_END, scanned: SCANNED, decoded: DECODED }
const LINES = rounds(20_000, 5_000)
const FIELD_LINES = 1_500

function scan(texts: readonly string[], ...names: string[]) {
  const wanted = new WantedNames()
  for (const name of names) wanted.slot(name)
  const lines = chunkOf(texts.map(text => [Buffer.from(text), '\n'] as const))
  const out = new Int32Array(lines.length * names.length * SLOT)
  theKernel()!.json.scan(lines, wanted, out, FLAGS)
  const value = (i: number, slot: number) => {
    const at = (i * names.length + slot) * SLOT
    return out[at] === 0 ? undefined : lines.chunk.toString('utf8', out[at], out[at + 1]! >> 1)
  }
  return { flags: lines.flags.map(flag => flag & ~LINE_END), value }
}

t.test(`${LINES} generated lines are scanned as in JavaScript`, async t => {
  const { wrong, objects, undecided } = scanDifferences(20_260_101, LINES)
  t.same(wrong, [])
  t.ok(objects > LINES * 0.3, `${objects} objects`)
  t.ok(undecided > 0 && undecided < LINES * 0.6, `${undecided} lines left to JavaScript`)
})

t.test('lines of generated texts end where they end in JavaScript', async t => {
  const { wrong, found, left } = lineDifferences(20_260_101, LINES / 500)
  t.same(wrong, [])
  t.ok(found > LINES / 250, `${found} portions`)
  t.ok(left > 0, `${left} portions left to JavaScript`)
})

t.test('generated lines of access logs and containers become the same events as in JavaScript', async t => {
  for (const codecs of [
    ['nginx', 'apache'],
    ['cri', 'docker_json'],
  ] as const) {
    const { wrong, decoded, left } = await fieldDifferences(codecs, 20_260_101, FIELD_LINES)
    t.same(wrong, [])
    t.ok(decoded > FIELD_LINES * 0.4, `${decoded} lines of the format`)
    t.ok(left < FIELD_LINES * 0.7, `${left} lines left to JavaScript`)
  }
})

t.test('more events, and longer ones, than fit into its memory at a time, in their order', async t => {
  const line = (i: number, agent: string) =>
    `192.0.2.7 - - [31/Jan/2026:12:00:00 +0000] "GET /${i} HTTP/1.1" 200 612 "-" "${agent}"`
  const agents = (i: number) => (i % 1000 === 999 ? 'x'.repeat(200_000) : i % 7 === 0 ? String.raw`\x22` : 'curl')
  const lines = Array.from({ length: 5000 }, (_, i) => line(i, agents(i)))
  const batch = batchOf(lines, { decode: 'nginx' })
  const events = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts)
    .toString()
    .trimEnd()
    .split('\n')
  t.same(
    events.map(event => JSON.parse(event).path),
    lines.map((_, i) => `/${i}`),
  )
  const { stage, wanted } = await loadedStageOf(parse, { codec: 'nginx' })
  const reader = fieldReaderOf('.path', wanted)
  const texts = batchOf(lines, { decode: 'text', wanted })
  stage.write(texts)
  t.same(
    linesOf(texts).map(event => JSON.parse(event).path),
    events.map(event => JSON.parse(event).path),
  )
  t.ok(lines.every((_, i) => reader.load(texts, i) === STRING_VALUE && reader.text() === `/${i}`))
})

t.test('events of a chunk are written into the memory of the kernel while they fit there', async t => {
  const { stage, wanted } = await loadedStageOf(parse, { codec: 'nginx' })
  const reader = fieldReaderOf('.path', wanted)
  for (const [file, fits] of [
    ['/x', true],
    ['/x'.repeat(500), false],
  ] as const) {
    const line = (i: number) => `192.0.2.7 - - [31/Jan/2026:12:00:00 +0000] "GET /${i} HTTP/1.1" 200 612 "-" "curl"`
    const lines = Array.from({ length: 5000 }, (_, i) => line(i))
    const batch = pooledLines(lines.join('\n'), { ...originOf('text', file), wanted })
    stage.write(batch)
    t.ok(lines.every((_, i) => reader.load(batch, i) === STRING_VALUE && reader.text() === `/${i}`))
    t.same(
      linesOf(batch).map(event => JSON.parse(event).message),
      lines,
    )
    t.equal(isInChunkMemory(batch.texts!.bytes), fits)
    batch.ack.settle('delivered')
  }
})

t.test('more lines, and longer ones, than fit into its memory at a time', async t => {
  const long = `{"a":"${'x'.repeat(300_000)}","b":1}`
  const texts = [...Array.from({ length: 10_000 }, (_, i) => `{"a":${i}}`), long, '{"a":"last"}', long, long]
  const { flags, value } = scan(texts, 'a', 'b')
  t.ok(flags.every(flag => flag === (SCANNED | DECODED)))
  t.same([value(0, 0), value(9_999, 0), value(10_000, 1), value(10_001, 0)], ['0', '9999', '1', '"last"'])
  t.equal(value(10_003, 0)?.length, 300_002)
  const { flags: left } = scan([`{"a":"${'x'.repeat(600_000)}"}`, '{}'], 'a')
  t.same([...left], [0, SCANNED | DECODED], 'a line that does not fit is left to the caller')
})

t.test('nesting beyond its bound, and escaped names, are left to the caller', async t => {
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
  const { flags } = scan([nested(1000), nested(3000), '{}', String.raw`{"\u0061":1}`, '{"a":1}', '{"b":[1}'], 'a')
  t.same([...flags], [48, 0, 48, 0, 48, 16])
})

t.test('objects that are nested as in the line before are left to the caller beyond the bound, too', async t => {
  const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
  const { flags, value } = scan([nested(3), nested(1025), nested(1026), nested(1025), nested(3)], 'a')
  t.same([...flags], [48, 48, 0, 48, 48])
  t.same([value(3, 0), value(4, 0)], [nested(1024), nested(2)])
})

t.test('a line whose containers are closed otherwise than in the line before is no object', async t => {
  const good = '{"a":{"b":1},"c":[{"d":"x"},{"d":"y"}],"e":{"f":{"g":2}}}'
  const broken = [
    ...[good.slice(0, -1), `${good.slice(0, -1)}]`, `${good.slice(0, -1)}:`, `${good}}`, `${good.slice(0, -2)}]}`],
    ...['{"a":{"b":1}', '{"a":{"b":1]}', '{"a":{"b":1,"c":[]}', '{"a":{"b":1},"c":[{"d":"x"},{"d":"y"}}}'],
    ...['{"a":{"b":1},"c":[{"d":"x"},"e":{}]}', '{"a":{"b":1},"c":["d":"x"]}', '{"a":{"b":1},"c":[{"d":"x"}]]}'],
    ...['{"a":{"b":1},{"b":1}}', '{"a":{"b":1},"c"}', '{"a":{{"b":1}}}', '{"a":{"b":1},"c":["x",]}', '{"a":{"b":1,}}'],
  ]
  const { flags } = scan(
    broken.flatMap(line => [good, line]),
    'a',
  )
  t.same(
    broken.filter((_, i) => flags[2 * i] !== 48 || flags[2 * i + 1] !== 16),
    [],
  )
})

t.test('what was new in an object of an array is not expected in the array', async t => {
  const lines = ['{"a":[{"b":1}]}', '{"a":[1,{"new":1}]}', '{"a":[1,"new":2]}', '{"c":[{"d":1}]}', '{"e":["d":2]}']
  t.same([...scan(lines, 'a').flags], [48, 48, 16, 48, 16])
})

t.test('a known member that was passed over before an array is not expected in it', async t => {
  const lines = ['{"a":1,"b":["x"]}', '{"a":1,"b":[2,"a":1]}', '{"a":1,"b":[2,"x"]}']
  t.same([...scan(lines, 'a').flags], [48, 16, 48])
})

t.test('what was new behind an array of known elements is not expected in an array', async t => {
  const lines = ['{"a":[1,"x"],"new":2}', '{"b":[1,"new":2]}', '{"b":[1,"x"],"new":2}']
  t.same([...scan(lines, 'a').flags], [48, 16, 48])
})

t.test('a container that is open where a line breaks off has no effect on later lines', async t => {
  for (const broken of ['{"a":{"b":', '{"a":{"b":1},"a":[{"b":']) {
    t.same([...scan([broken], 'a').flags], [16])
    const { value } = scan(['{"a":"first"}', '{"b":{"c":1},"d":2}', '{"b":{"c":1}}'], 'a')
    t.same([value(0, 0), value(1, 0), value(2, 0)], ['"first"', undefined, undefined])
  }
})

t.test('only the lines that it leaves are scanned again, also after the bytes of a batch moved', async t => {
  const lines = Array.from({ length: 100 }, (_, i) =>
    i === 50 ? String.raw`{"\u0061":"50"}` : `{"a":"${i}","pad":"${'x'.repeat(50)}"}`,
  )
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.a', wanted)
  const batch = batchOf(lines, { wanted })
  const { codec } = batch.origin
  const scan = t.capture(codec, 'scan', codec.scan)
  t.equal(batch.scan(), 0)
  t.equal(scan().length, 1)
  const read = (from: EventBatch) =>
    lines.map((_, i) => {
      reader.load(from, i)
      return reader.text()
    })
  const texts = lines.map((_, i) => String(i))
  t.same(read(batch), texts)
  t.same(read(batch.snapshot()), texts)
  t.equal(scan().length, 1, 'the copy has the flags, and not the values')
})

t.test('as many names as anybody reads, and more than fit', async t => {
  const names = Array.from({ length: 3000 }, (_, i) => `name ${i}`)
  const few = scan(['{"name 7":true,"name 299":null}'], ...names.slice(0, 300))
  t.same([few.value(0, 7), few.value(0, 299), few.value(0, 8)], ['true', 'null', undefined])
  t.same([...scan(['{}'], ...names).flags], [0])
})

t.test('a batch reads the same fields with it and, where it does not run, without it', async t => {
  const lines = [
    '{"a":{"b":[1]},"n":1.5}',
    String.raw`{"\u0061":"x"}`,
    'text',
    '{"a":"é\\n"}',
    `{"a":${'['.repeat(2000)}`,
  ]
  const wanted = new WantedNames()
  const reader = fieldReaderOf('.a', wanted)
  const read = (scans: boolean) => {
    const batch = batchOf(lines, { wanted })
    if (scans) t.equal(batch.scan(), 2)
    return lines.map((_, i) => [reader.load(batch, i), reader.text()])
  }
  t.same(read(true), read(false))
  const script = `
    const { theKernel } = await import(${JSON.stringify(join(checkout, 'dist/src/lib/kernel/kernel.js'))})
    process.stdout.write(String(theKernel()))`
  const output = execFileSync(process.execPath, ['--jitless', '--input-type=module', '-e', script], { stdio: 'pipe' })
  t.equal(String(output), 'undefined')
})
