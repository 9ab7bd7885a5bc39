/**
 * Reads the texts of log records from the messages of the OpenTelemetry protocol in protobuf. Only what a collector
 * with a filelog or tcplog receiver writes is understood: bodies that are strings.
 */

/** Numbers of the fields on the way from an ExportLogsServiceRequest to the text of a record's body. */
const RESOURCE_LOGS = 1
const SCOPE_LOGS = 2
const LOG_RECORDS = 2
const BODY = 5
const STRING_VALUE = 1

const VARINT = 0
const FIXED64 = 1
const LENGTH_DELIMITED = 2
const FIXED32 = 5

/** Calls `take` with the text of each log record of one message, in order. */
export function eachRecord(message: Buffer, take: (text: Buffer) => void): void {
  descend(message, 0, message.length, [RESOURCE_LOGS, SCOPE_LOGS, LOG_RECORDS, BODY, STRING_VALUE], 0, take)
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

function descend(
  bytes: Buffer,
  begin: number,
  end: number,
  path: readonly number[],
  depth: number,
  take: (text: Buffer) => void,
): void {
  if (depth === path.length) {
    take(bytes.subarray(begin, end))
    return
  }
  const reader = { bytes, at: begin }
  while (reader.at < end) {
    const key = varint(reader)
    const type = key & 7
    if (type === VARINT) varint(reader)
    else if (type === FIXED64) reader.at += 8
    else if (type === FIXED32) reader.at += 4
    else if (type === LENGTH_DELIMITED) {
      const length = varint(reader)
      if (key >>> 3 === path[depth]) descend(bytes, reader.at, reader.at + length, path, depth + 1, take)
      reader.at += length
    } else throw new Error(`not a message of the OpenTelemetry protocol: wire type ${type} at byte ${reader.at}`)
  }
}

/** The low 32 bits of a variable-length number: enough for keys and lengths. */
function varint(reader: { readonly bytes: Buffer; at: number }): number {
  let value = 0
  for (let shift = 0; ; shift += 7) {
    const byte = reader.bytes[reader.at++]!
    if (shift < 32) value |= (byte & 0x7f) << shift
    if (byte < 0x80) return value >>> 0
  }
}
