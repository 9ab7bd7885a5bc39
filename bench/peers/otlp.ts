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
const PATH = [RESOURCE_LOGS, SCOPE_LOGS, LOG_RECORDS, BODY, STRING_VALUE]

const VARINT = 0
const FIXED64 = 1
const LENGTH_DELIMITED = 2
const FIXED32 = 5

/** Called with each text: `bytes` from `begin` to before `end`. */
type Take = (bytes: Buffer, begin: number, end: number) => void

/** Calls `take` with the text of each log record of one message, in order. */
export function eachRecord(message: Buffer, take: Take): void {
  descend(message, 0, message.length, 0, take)
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

function descend(bytes: Buffer, begin: number, end: number, depth: number, take: Take): void {
  if (depth === PATH.length) {
    take(bytes, begin, end)
    return
  }
  for (let at = begin; at < end; ) {
    const key = varint(bytes, at)
    const type = key & 7
    at = behind
    if (type === LENGTH_DELIMITED) {
      const to = varint(bytes, at) + behind
      if (key >>> 3 === PATH[depth]) descend(bytes, behind, to, depth + 1, take)
      at = to
    } else if (type === FIXED64) at += 8
    else if (type === FIXED32) at += 4
    else if (type === VARINT) {
      varint(bytes, at)
      at = behind
    } else throw new Error(`not a message of the OpenTelemetry protocol: wire type ${type} at byte ${at}`)
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
