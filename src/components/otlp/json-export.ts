import { broken } from '../../core/codecs/protobuf/protobuf-wire.js'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../../lib/formats/ascii.js'
import { findMember, found, MemberName } from '../../lib/formats/json-members.js'
import { skipSpace, valueEnd } from '../../lib/formats/json-scan.js'
import { rfc3339 } from '../../lib/formats/rfc3339.js'
import type { ExportLines } from './export-lines.js'
import { MOST_LEVELS, nestedAttributes, RECORD_FIELDS } from './record-json.js'

const [RESOURCE_LOGS, RESOURCE] = [new MemberName('resourceLogs'), new MemberName('resource')]
const [SCOPE_LOGS, SCOPE, LOG_RECORDS] = [
  new MemberName('scopeLogs'),
  new MemberName('scope'),
  new MemberName('logRecords'),
]
const TAKEN: ReadonlySet<string> = new Set(RECORD_FIELDS)
const INTEGER = /^-?(?:0|[1-9]\d{0,19})$/
const HEX = /^(?:[0-9a-f]{2})*$/i

/** Adds the records of a request to `lines`, which yields them. The request [start, end) is a valid JSON object. */
export function* readJsonExport(b: Buffer, start: number, end: number, lines: ExportLines) {
  for (const group of itemsOf(b, start, end, RESOURCE_LOGS)) {
    // Each level scans the bytes of the levels below it again.
    yield undefined
    const resource = parsed(b, ...group, RESOURCE)
    const ofResource = resource && nestedAttributes(pairsOf(resource.attributes))
    for (const records of itemsOf(b, ...group, SCOPE_LOGS)) {
      yield undefined
      const scope = lines.scope(ofResource, scopeOf(parsed(b, ...records, SCOPE)))
      for (const [from, to] of itemsOf(b, ...records, LOG_RECORDS)) {
        lines.add(scope, () => lines.json.addText(recordOf(JSON.parse(b.toString('utf8', from, to)))))
        if (lines.isFull) yield lines.portion()
      }
    }
  }
  yield lines.portion()
}

/** Yields the ranges of the objects in an array that is a member of an object. */
function* itemsOf(b: Buffer, start: number, end: number, name: MemberName): Generator<[number, number]> {
  if (!findMember(b, start, end, name) || b[found.start] !== OPEN_ARRAY) return
  const stop = found.end
  for (let p = skipSpace(b, found.start + 1, stop); b[p] !== CLOSE_ARRAY; ) {
    const until = valueEnd(b, p, stop)
    if (b[p] === OPEN_OBJECT) yield [p, until]
    p = skipSpace(b, until, stop)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, stop)
  }
}

type Json = { readonly [name: string]: unknown }

function parsed(b: Buffer, start: number, end: number, name: MemberName): Json | undefined {
  const isObject = findMember(b, start, end, name) && b[found.start] === OPEN_OBJECT
  return isObject ? JSON.parse(b.toString('utf8', found.start, found.end)) : undefined
}

function scopeOf(scope: Json | undefined): string | undefined {
  if (!scope) return undefined
  const { name, version } = scope
  const attributes = pairsOf(scope.attributes).map(memberText)
  return objectText([
    ...(typeof name === 'string' && name ? [`"name":${JSON.stringify(name)}`] : []),
    ...(typeof version === 'string' && version ? [`"version":${JSON.stringify(version)}`] : []),
    ...(attributes.length > 0 ? [`"attributes":${objectText(attributes)}`] : []),
  ])
}

/** The members of a record. Throws NotProtobuf if the record is not valid. */
function recordOf(record: Json): string {
  const members: string[] = []
  const add = (name: string, json: string | undefined) => {
    if (json !== undefined) members.push(`"${name}":${json}`)
  }
  const attributes = pairsOf(record.attributes)
  members.push(...attributes.filter(([name]) => !TAKEN.has(name)).map(memberText))
  add('severity_number', integerText(record.severityNumber))
  add('severity', textOf(record.severityText))
  if (record.body !== undefined && Object.keys(record.body ?? {}).length > 0) add('message', valueText(record.body, 0))
  add('dropped_attributes_count', integerText(record.droppedAttributesCount))
  add('flags', integerText(record.flags))
  add('trace_id', idText(record.traceId))
  add('span_id', idText(record.spanId))
  add('event_name', textOf(record.eventName))
  const observed = timeText(record.observedTimeUnixNano)
  add('timestamp', timeText(record.timeUnixNano) ?? observed)
  add('observed_timestamp', observed)
  const taken = attributes.filter(([name]) => TAKEN.has(name)).map(memberText)
  if (taken.length > 0) add('attributes', objectText(taken))
  return members.join(',')
}

const objectText = (members: readonly string[]) => `{${members.join(',')}}`
const memberText = ([name, json]: readonly [string, string]) => `${JSON.stringify(name)}:${json}`

function pairsOf(attributes: unknown): [string, string][] {
  if (attributes === undefined || attributes === null) return []
  if (!Array.isArray(attributes)) broken()
  return attributes.map(pair => pairOf(pair, 0))
}

function pairOf(pair: unknown, level: number): [string, string] {
  const { key = '', value } = (pair ?? {}) as Json
  return [String(key), valueText(value, level)]
}

function valueText(value: unknown, level: number): string {
  if (level > MOST_LEVELS) broken()
  const [kind, content] = Object.entries(value ?? {}).at(-1) ?? []
  if (kind === 'stringValue' || kind === 'bytesValue')
    return typeof content === 'string' ? JSON.stringify(content) : broken()
  if (kind === 'boolValue') return typeof content === 'boolean' ? String(content) : broken()
  if (kind === 'intValue') return INTEGER.test(String(content)) ? String(content) : broken()
  if (kind === 'doubleValue') return doubleText(content)
  if (kind === 'arrayValue')
    return `[${valuesOf(content)
      .map(one => valueText(one, level + 1))
      .join(',')}]`
  if (kind === 'kvlistValue') return objectText(valuesOf(content).map(one => memberText(pairOf(one, level + 1))))
  return 'null'
}

function valuesOf(list: unknown): unknown[] {
  const { values = [] } = (list ?? {}) as Json
  return Array.isArray(values) ? values : broken()
}

/** A fraction shows the type, even a fraction of 0. */
function doubleText(value: unknown): string {
  const number = Number(value)
  if (!Number.isFinite(number)) return 'null'
  return Number.isInteger(number) && Math.abs(number) < 1e21
    ? `${Object.is(number, -0) ? '-0' : number}.0`
    : String(number)
}

function textOf(text: unknown): string | undefined {
  return typeof text === 'string' && text !== '' ? JSON.stringify(text) : undefined
}

function idText(id: unknown): string | undefined {
  if (id === undefined || id === null || id === '') return undefined
  return typeof id === 'string' && HEX.test(id) ? `"${id.toLowerCase()}"` : broken()
}

function integerText(number: unknown): string | undefined {
  const value = Number(number ?? 0)
  if (!Number.isInteger(value) || value < 0 || value >= 2 ** 32) broken()
  return value === 0 ? undefined : String(value)
}

function timeText(nanos: unknown): string | undefined {
  const text = String(nanos ?? 0)
  if (!/^\d{1,20}$/.test(text)) broken()
  if (/^0+$/.test(text)) return undefined
  const digits = text.padStart(10, '0')
  const time = rfc3339(Number(digits.slice(0, -9)), Number(digits.slice(-9)))
  return time === undefined ? broken() : `"${time}"`
}
