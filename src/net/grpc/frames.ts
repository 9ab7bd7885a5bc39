import type { IncomingHttpHeaders } from 'node:http'
import { type BodyEncoding, HAS_ZSTD } from '../http/server/body.js'
import { Refusal } from '../http/server/refusal.js'

/** Bytes before a message: whether it is compressed, and its length. */
export const FRAME_HEAD = 5

export const GRPC_ENCODINGS: readonly BodyEncoding[] = HAS_ZSTD ? ['gzip', 'zstd'] : ['gzip']

/** The head of a message of `size` bytes. */
export function messageHead(size: number, isCompressed = false): Buffer {
  const head = Buffer.alloc(FRAME_HEAD)
  head[0] = isCompressed ? 1 : 0
  head.writeUInt32BE(size, 1)
  return head
}

/** How the only message of a body is compressed. Throws a Refusal if the body is not one whole message. */
export function frameEncoding(body: Buffer, headers: IncomingHttpHeaders): BodyEncoding | undefined {
  const isWhole = body.length >= FRAME_HEAD && body.readUInt32BE(1) === body.length - FRAME_HEAD && body[0]! < 2
  if (!isWhole) throw new Refusal(400, 'malformed', 'the call is not one whole message')
  if (body[0] === 0) return undefined
  const name = headers['grpc-encoding']
  const found = GRPC_ENCODINGS.find(encoding => encoding === name)
  if (found) return found
  throw new Refusal(415, 'unsupported_encoding', `grpc-encoding must be ${GRPC_ENCODINGS.join(', ')} or identity`)
}

const UNITS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** The time that a call may take, in milliseconds; undefined: as long as it likes. */
export function timeoutOf({ 'grpc-timeout': text }: IncomingHttpHeaders): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(String(text)) ?? []
  return digits === undefined ? undefined : Number(digits) * UNITS[unit]!
}
