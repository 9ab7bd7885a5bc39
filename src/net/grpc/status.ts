import { WireWriter } from '../../core/codecs/protobuf/protobuf-output.js'
import { BYTES, VARINT } from '../../core/codecs/protobuf/protobuf-wire.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'

/** The statuses of gRPC by number. */
export const GRPC_STATUSES = [
  ...['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS'],
  ...['PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED'],
  ...['INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED'],
] as const
export type GrpcStatus = (typeof GRPC_STATUSES)[number]

/** The statuses of gRPC for those of HTTP. */
const STATUSES: Readonly<Record<number, GrpcStatus>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'UNIMPLEMENTED',
  408: 'DEADLINE_EXCEEDED',
  413: 'RESOURCE_EXHAUSTED',
  415: 'UNIMPLEMENTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
}

/** The status of gRPC for a refusal of HTTP. */
export function grpcStatusOf({ code, status }: { readonly code: string; readonly status: number }): GrpcStatus {
  return code === 'overloaded' ? 'RESOURCE_EXHAUSTED' : (STATUSES[status] ?? 'UNKNOWN')
}

const RETRY_INFO = 'type.googleapis.com/google.rpc.RetryInfo'

/** Encodes a google.rpc.Status. `retrySeconds`: after how many seconds the sender may repeat its call. */
export function statusMessage(code: number, message: string, retrySeconds?: number): Buffer {
  const wire = new WireWriter()
  wire.to = new GrowingBytes()
  const inner = (number: number, write: () => void) => {
    wire.tag(number, BYTES)
    const from = wire.begin()
    write()
    wire.end(from)
  }
  wire.tag(1, VARINT)
  wire.varint(code)
  inner(2, () => wire.to.addText(message))
  if (retrySeconds !== undefined) {
    inner(3, () => {
      inner(1, () => wire.to.addText(RETRY_INFO))
      inner(2, () =>
        inner(1, () => {
          wire.tag(1, VARINT)
          wire.varint(retrySeconds)
        }),
      )
    })
  }
  return wire.to.bytes.subarray(0, wire.to.length)
}
