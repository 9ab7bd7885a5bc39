import { WireReader } from '../../src/core/codecs/protobuf/protobuf-wire.js'

/**
 * Messages of the OpenTelemetry protocol, as its JSON, and of Loki: for each number of a field its name and its type; `[]`:
 * several.
 */
const MESSAGES: Record<string, Record<number, [name: string, type: string]>> = {
  request: { 1: ['resourceLogs', 'resourceLogs[]'] },
  resourceLogs: { 1: ['resource', 'resource'], 2: ['scopeLogs', 'scopeLogs[]'] },
  resource: { 1: ['attributes', 'pair[]'] },
  scopeLogs: { 1: ['scope', 'scope'], 2: ['logRecords', 'record[]'] },
  scope: { 1: ['name', 'text'] },
  record: {
    1: ['timeUnixNano', 'fixed64'],
    2: ['severityNumber', 'varint'],
    3: ['severityText', 'text'],
    5: ['body', 'value'],
    6: ['attributes', 'pair[]'],
    9: ['traceId', 'hex'],
    10: ['spanId', 'hex'],
    11: ['observedTimeUnixNano', 'fixed64'],
  },
  pair: { 1: ['key', 'text'], 2: ['value', 'value'] },
  value: {
    1: ['stringValue', 'text'],
    2: ['boolValue', 'bool'],
    3: ['intValue', 'int64'],
    4: ['doubleValue', 'double'],
    5: ['arrayValue', 'list'],
    6: ['kvlistValue', 'map'],
  },
  list: { 1: ['values', 'value[]'] },
  map: { 1: ['values', 'pair[]'] },
  push: { 1: ['streams', 'stream[]'] },
  stream: { 1: ['labels', 'text'], 2: ['entries', 'entry[]'] },
  entry: { 1: ['timestamp', 'timestamp'], 2: ['line', 'text'], 3: ['metadata', 'label[]'] },
  timestamp: { 1: ['seconds', 'int64'], 2: ['nanos', 'varint'] },
  label: { 1: ['name', 'text'], 2: ['value', 'text'] },
}

/** Lists that JSON has even if they are empty. */
const ALWAYS: Record<string, object> = {
  resource: { attributes: [] },
  scopeLogs: { logRecords: [] },
  record: { attributes: [] },
  list: { values: [] },
  map: { values: [] },
}

/** What a message in protobuf would be in JSON. Throws if it has anything else. */
export function messageOf(bytes: Buffer, type = 'request'): object {
  const reader = WireReader.of(bytes)
  const message: Record<string, unknown> = { ...ALWAYS[type] }
  while (reader.p < reader.end) {
    const tag = reader.varint()
    const [name, of] = MESSAGES[type]![tag >>> 3]!
    const value = fieldOf(reader, of.replace('[]', ''))
    if (!of.endsWith('[]')) message[name] = value
    else message[name] = [...((message[name] as unknown[] | undefined) ?? []), value]
  }
  return message
}

function fieldOf(reader: WireReader, type: string): unknown {
  const eight = () => {
    const at = reader.take(8)
    return reader.b.subarray(at, at + 8)
  }
  switch (type) {
    case 'varint':
      return reader.varint()
    case 'bool':
      return reader.varint() === 1
    case 'int64': {
      const low = reader.varint()
      return String(BigInt.asIntN(64, (BigInt(reader.high >>> 0) << 32n) | BigInt(low >>> 0)))
    }
    case 'fixed64':
      return String(eight().readBigUInt64LE())
    case 'double':
      return eight().readDoubleLE()
    case 'text':
      return reader.text('utf8')
    case 'hex':
      return reader.inner().rest().toString('hex')
    default:
      return messageOf(reader.inner().rest(), type)
  }
}
