import protobuf from 'protobufjs'

/** The messages of OTLP for logs, by a library of others. */
const PROTO = `
syntax = "proto3";
message AnyValue {
  oneof value {
    string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
    ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7;
  }
}
message ArrayValue { repeated AnyValue values = 1; }
message KeyValueList { repeated KeyValue values = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message Scope { string name = 1; string version = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4; }
message Resource { repeated KeyValue attributes = 1; uint32 dropped_attributes_count = 2; }
message LogRecord {
  fixed64 time_unix_nano = 1; fixed64 observed_time_unix_nano = 11; int32 severity_number = 2; string severity_text = 3;
  AnyValue body = 5; repeated KeyValue attributes = 6; uint32 dropped_attributes_count = 7; fixed32 flags = 8;
  bytes trace_id = 9; bytes span_id = 10; string event_name = 12;
}
message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; string schema_url = 3; }
message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; string schema_url = 3; }
message Export { repeated ResourceLogs resource_logs = 1; }
message Partial { int64 rejected_log_records = 1; string error_message = 2; }
message Exported { Partial partial_success = 1; }
message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
message Any { string type_url = 1; bytes value = 2; }
message RetryInfo { Duration retry_delay = 1; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
`
const { root } = protobuf.parse(PROTO)

/** A request as in OTLP's JSON. */
export interface ExportJson {
  readonly resourceLogs: readonly object[]
}

const HEX = new Set(['traceId', 'spanId'])

/** Ids are hexadecimal in this JSON, and base64 in that of protobuf. */
const withIds = (json: unknown): unknown =>
  JSON.parse(JSON.stringify(json), (name, value) =>
    HEX.has(name) ? Buffer.from(value, 'hex').toString('base64') : value,
  )

export function exportMessage(json: ExportJson): Buffer {
  const type = root.lookupType('Export')
  return Buffer.from(type.encode(type.fromObject(withIds(json) as object)).finish())
}

/** The content of a message; 64-bit integers as text. */
export const messageOf = (name: string, bytes: Uint8Array): Record<string, unknown> => {
  const type = root.lookupType(name)
  return type.toObject(type.decode(bytes), { longs: String, bytes: String })
}

export const text = (stringValue: string) => ({ stringValue })

/** A request with all parts and types, in two resources. */
export const EVERYTHING: ExportJson = {
  resourceLogs: [
    {
      resource: {
        attributes: [
          { key: 'service.name', value: text('shop') },
          { key: 'service.version', value: text('1') },
          { key: 'process.pid', value: { intValue: '17' } },
          { key: 'process', value: text('in the way') },
          { key: 'a..b', value: { boolValue: true } },
        ],
      },
      scopeLogs: [
        {
          scope: { name: 'lib', version: '2', attributes: [{ key: 'x.y', value: text('z') }] },
          logRecords: [
            {
              timeUnixNano: '1767225599123456789',
              observedTimeUnixNano: '1767225600000000000',
              severityNumber: 13,
              severityText: 'WARN',
              body: text('é "q"\n\u0001'),
              attributes: [
                { key: 'http.route', value: text('/a') },
                { key: 'n', value: { intValue: '-9223372036854775808' } },
                { key: 'small', value: { intValue: '-5' } },
                { key: 'd', value: { doubleValue: 2 } },
                { key: 'f', value: { doubleValue: -0.25 } },
                { key: 'yes', value: { boolValue: true } },
                { key: 'none', value: {} },
                { key: 'bytes', value: { bytesValue: Buffer.from('ab').toString('base64') } },
                { key: 'list', value: { arrayValue: { values: [text('a'), { intValue: '1' }, { arrayValue: {} }] } } },
                { key: 'map', value: { kvlistValue: { values: [{ key: 'k.l', value: text('v') }] } } },
                { key: 'resource', value: text('taken') },
                { key: 'peer', value: { intValue: '1' } },
              ],
              droppedAttributesCount: 3,
              flags: 1,
              traceId: '5b8efff798038103d269b633813fc60c',
              spanId: 'eee19b7ec3c1b174',
              eventName: 'sold',
            },
            {
              observedTimeUnixNano: '1767225600000000000',
              body: { kvlistValue: { values: [{ key: 'a', value: text('b') }] } },
            },
            {},
          ],
        },
      ],
    },
    { scopeLogs: [{ logRecords: [{ body: { intValue: '7' } }] }] },
  ],
}

/** A request as JSON, with its attributes in the order of their names, and without what is known to differ. */
export function comparableExport(request: string | object): unknown {
  return JSON.parse(
    typeof request === 'string' ? request : JSON.stringify(request),
    (name, value: { readonly bytesValue?: string; readonly values?: unknown }) => {
      if (name === 'attributes' && Array.isArray(value))
        return value.sort((a: { key: string }, b: { key: string }) => (a.key < b.key ? -1 : 1))
      if (name === 'value' && value.bytesValue) return { stringValue: value.bytesValue }
      if (name === 'arrayValue' || name === 'kvlistValue') return { values: value.values ?? [] }
      return value
    },
  )
}
