/**
 * Reads the texts of log records from messages in protobuf: of the OpenTelemetry protocol, where a collector with a
 * filelog or tcplog receiver writes bodies that are strings, and of Loki.
 */

/** Numbers of the fields on the way from a message to the text of a record. */
const PATHS = {
  // resource_logs, scope_logs, log_records, body, string_value of an ExportLogsServiceRequest
  otlp: [1, 2, 2, 5, 1],
  // streams, entries, line of a PushRequest
  loki: [1, 2, 2],
} as const

export type MessageKind = keyof typeof PATHS

const VARINT = 0
const FIXED64 = 1
const LENGTH_DELIMITED = 2
const FIXED32 = 5

/** Called with each text: `bytes` from `begin` to before `end`. */
type Take = (bytes: Buffer, begin: number, end: number) => void

/** Calls `take` with the text of each log record of one message, in order. */
export function eachRecord(message: Buffer, take: Take, kind: MessageKind = 'otlp'): void {
  descend(message, 0, message.length, PATHS[kind], 0, take)
}

/** The same for a file of such messages, each after its length in four bytes; `take` has them one by one. */
export function* framedMessages(file: Iterable<Buffer>): Generator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for (const block of file) {
    rest = rest.length === 0 ? Buffer.from(block) : Buffer.concat([rest, block])
    while (rest.length >= 4) {
      const end = 4 + rest.readUInt32BE(0)
      if (rest.length < end) break
      yield rest.subarray(4, end)
      rest = rest.subarray(end)
    }
  }
  if (rest.length > 0) throw new Error(`the file ends with ${rest.length} bytes of an unfinished message`)
}

/** Where the number ends that `varint` read last. */
let behind = 0

function descend(bytes: Buffer, begin: number, end: number, path: readonly number[], depth: number, take: Take): void {
  if (depth === path.length) {
    take(bytes, begin, end)
    return
  }
  for (let at = begin; at < end; ) {
    const key = varint(bytes, at)
    const type = key & 7
    at = behind
    if (type === LENGTH_DELIMITED) {
      const to = varint(bytes, at) + behind
      if (key >>> 3 === path[depth]) descend(bytes, behind, to, path, depth + 1, take)
      at = to
    } else if (type === FIXED64) at += 8
    else if (type === FIXED32) at += 4
    else if (type === VARINT) {
      varint(bytes, at)
      at = behind
    } else throw new Error(`not a message in protobuf: wire type ${type} at byte ${at}`)
  }
}

/** The low 32 bits of a variable-length number: enough for keys and lengths. */
function varint(bytes: Buffer, at: number): number {
  let byte = bytes[at]!
  let value = byte & 0x7f
  for (let shift = 7; byte >= 0x80; shift += 7) {
    byte = bytes[++at]!
    if (shift < 32) value |= (byte & 0x7f) << shift
  }
  behind = at + 1
  return value >>> 0
}
