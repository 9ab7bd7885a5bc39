import { deciderOptions } from '../../src/components/processors/throttle/decider-options.js'
import { throttle } from '../../src/components/processors/throttle.js'
import { createDecider } from '../../src/components/throttle/create-decider.js'
import type { Codec } from '../../src/core/codec.js'
import { encodeLines, RawEncoder } from '../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import { codecOf } from '../../src/core/codecs/list.js'
import { TEXT_LINES } from '../../src/core/codecs/text.js'
import { compileCondition } from '../../src/core/condition/condition.js'
import { parseCondition } from '../../src/core/condition/parse.js'
import { Ack } from '../../src/core/event/ack.js'
import { EventBatch } from '../../src/core/event/batch.js'
import { type EditedField, EventEditor } from '../../src/core/event/event-editor.js'
import { parseFieldPath } from '../../src/core/event/field-path.js'
import { FieldReader } from '../../src/core/event/field-reader.js'
import { BatchDecoder, encodeBatch } from '../../src/engine/flow/disk-buffer/record.js'
import { scanObject, WantedNames } from '../../src/lib/formats/json-scan.js'
import { isInChunkMemory } from '../../src/lib/lines/chunk-memory.js'
import { type Frame, LineSplitter } from '../../src/lib/lines/line-splitter.js'

/** What is done with every line, each by itself, over the same 1,000 lines of about 220 bytes. */

export interface MicroBench {
  readonly id: string
  readonly title: string
  /** Does it with all lines once. */
  run(): void
}

export const LINES = 1000

function chunkOf(line: (i: number) => string): Buffer {
  return Buffer.from(Array.from({ length: LINES }, (_, i) => `${line(i)}\n`).join(''))
}

const JSON_LINES = chunkOf(
  i =>
    `{"timestamp":"2026-01-01T00:00:00.${String(i).padStart(3, '0')}Z","level":"${i % 7 === 0 ? 'error' : 'info'}","host":"web-${i % 50}","app":"app-${String((i * 7919) % 1000).padStart(4, '0')}","request_id":"1ce2aa6${i}","method":"GET","path":"/api/v1/orders/${i * 293}","status":204,"took_ms":${i}.25,"message":"request completed, cache miss"}`,
)
const LOGFMT_LINES = chunkOf(
  i =>
    `ts=2026-01-01T00:00:00Z level=info host=web-${i % 50} app=app-${i} method=GET path=/api/v1/orders/${i * 293} status=204 took_ms=${i}.25 msg="request completed, cache miss"`,
)
const CSV_LINES = chunkOf(
  i => `2026-01-01T00:00:00Z,info,web-${i % 50},app-${i},GET,/api/v1/orders/${i * 293},204,${i}.25,"request completed"`,
)
const SYSLOG_LINES = chunkOf(
  i =>
    `<34>1 2026-01-01T00:00:00.003Z web-${i % 50} app-${i} 8710 ID47 - request completed, cache miss, GET /api/v1/orders/${i * 293}, status 204`,
)

const wanted = new WantedNames()
const app = new FieldReader(parseFieldPath('.app'), wanted)
const condition = compileCondition(
  parseCondition("if (.level equal 'error' AND .host not_equal 'web-07')"),
  path => new FieldReader(path, wanted),
)

function frameOf(chunk: Buffer): Frame {
  return new LineSplitter(1 << 20).push(chunk)!
}

/** A batch whose lines are not scanned yet; its columns are its own. */
function batchOf(frame: Frame, codec: Codec, names = wanted): EventBatch {
  const { chunk, length, bytes } = frame
  const columns = { starts: frame.starts.slice(), ends: frame.ends.slice(), flags: frame.flags.slice() }
  const origin = { source: 'bench', host: 'bench', codec, wanted: names }
  return new EventBatch({ chunk, length, bytes, ...columns }, origin, 0, new Ack(() => {}))
}

const FRAME = frameOf(JSON_LINES)
const scanned = batchOf(FRAME, JSON_OBJECTS)
scanned.scan()

const ONE_RULE_A_KEY = Array.from({ length: 1000 }, (_, n) => ({ key: `app-${String(n).padStart(4, '0')}`, limit: 90 }))

const text = batchOf(frameOf(LOGFMT_LINES), TEXT_LINES)
/** The same bytes as text: 44 quotes in every line. */
const quotes = batchOf(FRAME, TEXT_LINES)

const CSV = { columns: ['ts', 'level', 'host', 'app', 'method', 'path', 'status', 'took', 'msg'] }
const csv = batchOf(frameOf(CSV_LINES), codecOf('csv', CSV)!)
const logfmt = batchOf(frameOf(LOGFMT_LINES), codecOf('logfmt')!)

const ownWanted = new WantedNames()
const editor = new EventEditor(ownWanted)
const [status, requestId, id, host] = ['.status', '.request_id', '.id', '.host'].map(path =>
  editor.field(parseFieldPath(path)),
) as [EditedField, EditedField, EditedField, EditedField]
const SERVER_ERROR = Buffer.from('503')

/** Decodes every line, changes it and encodes it. */
function editBench(id: string, title: string, change: () => void): MicroBench {
  const run = () => {
    const batch = batchOf(FRAME, JSON_OBJECTS, ownWanted)
    batch.scan()
    for (let i = 0; i < LINES; i++) {
      editor.open(batch, i)
      change()
      editor.close()
    }
    encodeLines(JSON_OBJECTS, [batch])
  }
  return { id, title: `${title}: decoded, changed, encoded`, run }
}

function scanBench(id: string, chunk: Buffer, options: object = {}): MicroBench {
  const codec = codecOf(id, options)!
  const frame = frameOf(chunk)
  return { id: `decode_${id}`, title: `decode ${id}`, run: () => void batchOf(frame, codec).scan() }
}

/** A throttle whose clock advances by 7 ms a batch. In other memory, it would decide event by event. */
function throttleBench(id: string, title: string, options: object = {}): MicroBench {
  let now = 1_767_225_600_000
  const names = new WantedNames()
  const given = { limit: 100, window: '1s', key_field: '.app', ...options }
  const compiled = deciderOptions(throttle.options.parse(given), { field: path => new FieldReader(path, names) })
  const decider = createDecider(compiled, { now: () => (now += 7), wall: () => now })
  const batch = batchOf(FRAME, JSON_OBJECTS, names)
  batch.scan()
  if (!isInChunkMemory(batch.chunk)) throw new Error('the lines are not in the memory of the kernel')
  return { id, title, run: () => void decider.decide(batch) }
}

export function microBenches(): MicroBench[] {
  const splitter = new LineSplitter(1 << 20)
  const slots = new Int32Array(wanted.names.length * 2)
  const decoder = new BatchDecoder(wanted)
  const record = encodeBatch(scanned)
  return [
    { id: 'frame', title: 'find the lines', run: () => void splitter.push(JSON_LINES) },
    scanBench('json', JSON_LINES),
    {
      id: 'scan_js',
      title: 'decode json in JavaScript',
      run: () => {
        for (let i = 0; i < LINES; i++)
          scanObject(JSON_LINES, FRAME.starts[i]!, FRAME.ends[i]!, wanted, slots.fill(0), 0)
      },
    },
    scanBench('logfmt', LOGFMT_LINES),
    scanBench('csv', CSV_LINES, CSV),
    scanBench('syslog', SYSLOG_LINES),
    {
      id: 'read_field',
      title: 'read one field',
      run: () => {
        for (let i = 0; i < LINES; i++) app.load(scanned, i)
      },
    },
    {
      id: 'condition',
      title: 'condition over two fields',
      run: () => {
        for (let i = 0; i < LINES; i++) condition(scanned, i)
      },
    },
    throttleBench('throttle', 'throttle by key, 1,000 keys'),
    throttleBench('throttle_rules', 'throttle by key, 1,000 rules', { limits: ONE_RULE_A_KEY }),
    throttleBench('throttle_alone', 'throttle by two keys, event by event', { key_field: ['.app', '.host'] }),
    throttleBench('throttle_event_time', 'throttle by key, in event time', { limit: 1e9, time_field: '.timestamp' }),
    { id: 'encode_raw', title: 'encode as read', run: () => void new RawEncoder().encode([scanned]) },
    { id: 'encode_json', title: 'encode json, unchanged', run: () => void encodeLines(JSON_OBJECTS, [scanned]) },
    { id: 'buffer_write', title: 'record of a disk buffer, written', run: () => void encodeBatch(scanned) },
    {
      id: 'buffer_read',
      title: 'record of a disk buffer, read',
      run: () => void decoder.decode(record, new Ack(() => {})).scan(),
    },
    editBench('set_field', 'a field is set', () => editor.setJson(status, SERVER_ERROR)),
    editBench('rename_field', 'a field is renamed', () => editor.rename(requestId, id)),
    editBench('remove_field', 'a field is removed', () => editor.remove(host)),
    editBench('edit_fields', 'all three of these', () => {
      editor.setJson(status, SERVER_ERROR)
      editor.rename(requestId, id)
      editor.remove(host)
    }),
    {
      id: 'edit_objects',
      title: 'all three, by JSON.parse and JSON.stringify',
      run: () => {
        for (let i = 0; i < LINES; i++) {
          const fields = JSON.parse(JSON_LINES.toString('utf8', FRAME.starts[i]!, FRAME.ends[i]!))
          fields.status = 503
          fields.id = fields.request_id
          delete fields.request_id
          delete fields.host
          JSON.stringify(fields)
        }
      },
    },
    { id: 'text_to_json', title: 'text to JSON', run: () => void encodeLines(JSON_OBJECTS, [text]) },
    { id: 'quotes_to_json', title: 'text with 44 quotes to JSON', run: () => void encodeLines(JSON_OBJECTS, [quotes]) },
    {
      id: 'logfmt_to_json',
      title: 'logfmt to JSON',
      run: () => void encodeLines(JSON_OBJECTS, [logfmt]),
    },
    { id: 'csv_to_json', title: 'csv to JSON', run: () => void encodeLines(JSON_OBJECTS, [csv]) },
    {
      id: 'text_objects',
      title: 'text to JSON, by JSON.stringify',
      run: () => {
        for (let i = 0; i < LINES; i++) JSON.stringify(text.fields(i))
      },
    },
    {
      id: 'parse_stringify',
      title: 'JSON.parse and JSON.stringify',
      run: () => {
        for (let i = 0; i < LINES; i++)
          JSON.stringify(JSON.parse(JSON_LINES.toString('utf8', FRAME.starts[i]!, FRAME.ends[i]!)))
      },
    },
  ]
}

/** The work that everything is compared with: one step for each byte. It must never change. */
export function reference(): number {
  let sum = 0
  for (let i = 0; i < JSON_LINES.length; i++) sum = (Math.imul(sum, 31) + JSON_LINES[i]!) | 0
  return sum
}
