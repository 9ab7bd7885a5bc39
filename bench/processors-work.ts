import { type CodecLines, codecLines } from './codec-lines.js'
import { inputLines } from './input.js'

/** What the bench of processors and codecs does, and with which lines. */

export interface ProcessorWork {
  readonly id: string
  readonly type: string
  readonly options: object
  readonly lines: readonly string[]
  /** What the lines are read with; default: json. */
  readonly codec?: string
  /** The codec by which they become events for the pair; default: the same. */
  readonly as?: string
}

export const LINES = 1000
const JSON_LINES = inputLines(LINES)

function times(line: (i: number) => string): string[] {
  return Array.from({ length: LINES }, (_, i) => line(i))
}

const NGINX = times(
  i =>
    `192.0.2.${i % 250} - - [31/Jan/2026:12:00:${String(Math.floor(i / 20)).padStart(2, '0')} +0000] "GET /api/v1/orders/${i * 293} HTTP/1.1" 200 ${i * 7} "https://example.com/cart" "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/147.0"`,
)
/** One in ten has something that must not leave the machine. */
const SECRETS = ['card 4111 1111 1111 1111', 'by jane@example.com', 'from 203.0.113.7', 'Bearer 0123456789abcdef']
const WITH_SECRETS = JSON_LINES.map((line, i) =>
  i % 10 === 0 ? line.replace('"message":"', `"message":"${SECRETS[(i / 10) % SECRETS.length]} `) : line,
)
/** What a service sends on behalf of others: records in an envelope. */
const WITH_ITEMS = times(
  i =>
    `{"timestamp":"2026-01-31T12:00:${String(i % 60).padStart(2, '0')}Z","app":"app-${i % 100}","host":"web-${i % 50}","items":[${[1, 2, 3].map(n => `{"id":${i * n},"name":"item ${n}","price":${n}.5,"tags":["new","eu-${i % 7}"]}`)}],"level":"info","trace":"${(i * 7919).toString(16).padStart(16, '0')}"}`,
)
const NESTED = times(
  i =>
    `{"timestamp":"2026-01-31T12:00:${String(i % 60).padStart(2, '0')}Z","kubernetes":{"pod":{"name":"app-${i % 100}-${(i * 7919) % 1000}","ip":"10.0.3.${i % 250}"},"namespace":"shop","labels":{"app":"app-${i % 100}","version":"1.${i % 9}"}},"http":{"method":"GET","path":"/api/v1/orders/${i * 293}","status":200,"took":{"ms":${i}}},"level":"info","message":"request completed"}`,
)
const FLAT = NESTED.map(line => {
  const { kubernetes, http, ...rest } = JSON.parse(line)
  const { pod, labels, namespace } = kubernetes
  const fields = {
    'kubernetes.pod.name': pod.name,
    'kubernetes.pod.ip': pod.ip,
    'kubernetes.namespace': namespace,
    'kubernetes.labels.app': labels.app,
    'kubernetes.labels.version': labels.version,
    'http.method': http.method,
    'http.path': http.path,
    'http.status': http.status,
    'http.took.ms': http.took.ms,
  }
  return JSON.stringify({ ...rest, ...fields })
})

/** `table`: a file with a row for each of the apps. */
export const processorWork = (table: string): readonly ProcessorWork[] => [
  ...[
    { id: 'parse nginx', codec: 'nginx' },
    { id: 'parse grok', codec: 'grok', pattern: '%{COMBINEDAPACHELOG}' },
  ].map(({ id, ...options }) => ({ id, type: 'parse', options, lines: NGINX, codec: 'text', as: 'nginx' })),
  ...Object.entries({
    'redact, two presets': ['card', 'email'],
    'redact, five presets': ['card', 'email', 'ipv4', 'jwt', 'bearer'],
  }).map(([id, presets]) => ({ id, type: 'redact', options: { presets }, lines: WITH_SECRETS })),
  {
    id: 'edit, three fields',
    type: 'edit',
    options: { steps: [{ set: { '.status': 503 } }, { rename: { '.request_id': '.id' } }, { remove: ['.host'] }] },
    lines: JSON_LINES,
  },
  {
    id: 'route, two conditions',
    type: 'route',
    options: { routes: { errors: "if (.level equal 'error')", slow: 'if (.took_ms greater 900)' } },
    lines: JSON_LINES,
  },
  { id: 'filter', type: 'filter', options: { condition: "if (.level not_equal 'debug')" }, lines: JSON_LINES },
  {
    id: 'throttle by key',
    type: 'throttle',
    options: { limit: 1, window: '1 Seconds', key_field: '.app' },
    lines: JSON_LINES,
  },
  { id: 'sample', type: 'sample', options: { one_in: 10 }, lines: JSON_LINES },
  { id: 'sample by key', type: 'sample', options: { one_in: 10, key_field: '.request_id' }, lines: JSON_LINES },
  { id: 'dedupe', type: 'dedupe', options: { fields: ['.app', '.message'], window: '10 Seconds' }, lines: JSON_LINES },
  {
    id: 'reduce',
    type: 'reduce',
    options: { key_field: '.host', timeout: '5 Seconds', merge: { '.took_ms': 'sum', '.message': 'array' } },
    lines: JSON_LINES,
  },
  {
    id: 'aggregate',
    type: 'aggregate',
    options: {
      every: '10 Seconds',
      key_field: '.app',
      counters: { requests: {}, took: { sum: '.took_ms' } },
      histograms: { took_ms: { field: '.took_ms', buckets: [10, 100] } },
    },
    lines: JSON_LINES,
  },
  { id: 'enrich', type: 'enrich', options: { table, key_field: '.app', target: '.owner' }, lines: JSON_LINES },
  { id: 'explode, three items', type: 'explode', options: { field: '.items', target: '.item' }, lines: WITH_ITEMS },
  { id: 'flatten', type: 'flatten', options: {}, lines: NESTED },
  { id: 'flatten, nest', type: 'flatten', options: { mode: 'nest' }, lines: FLAT },
  {
    id: 'script',
    type: 'script',
    options: { code: 'event => ({ ...event, status: 503 })' },
    lines: JSON_LINES,
  },
]

/** A message with the fields of these lines. */
const LINE_DESCRIPTOR =
  'Co0CCgpsaW5lLnByb3RvIvYBCgRMaW5lEhwKCXRpbWVzdGFtcBgBIAEoCVIJdGltZXN0YW1wEhQKBWxldmVsGAIgASgJUgVsZXZlbBISCgRob3N0GAMgASgJUgRob3N0EhAKA2FwcBgEIAEoCVIDYXBwEh0KCnJlcXVlc3RfaWQYBSABKAlSCXJlcXVlc3RJZBIWCgZtZXRob2QYBiABKAlSBm1ldGhvZBISCgRwYXRoGAcgASgJUgRwYXRoEhYKBnN0YXR1cxgIIAEoBVIGc3RhdHVzEhcKB3Rvb2tfbXMYCSABKAFSBnRvb2tNcxIYCgdtZXNzYWdlGAogASgJUgdtZXNzYWdlYgZwcm90bzM='

/** Lines of codecs. Of any other its first example is read over and over. */
export const CODEC_LINES: Readonly<Record<string, CodecLines>> = {
  ...codecLines(LINES),
  json: { lines: JSON_LINES },
  ndjson: { lines: JSON_LINES },
  msgpack: { lines: JSON_LINES },
  protobuf: { lines: JSON_LINES, options: { descriptor: LINE_DESCRIPTOR, message: 'Line' } },
  text: { lines: NGINX },
  raw: { lines: NGINX },
  nginx: { lines: NGINX },
  apache: { lines: NGINX },
}
