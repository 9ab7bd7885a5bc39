import http from 'node:http'
import { credentials, Metadata, makeGenericClientConstructor, type ServiceError } from '@grpc/grpc-js'
import type { Test } from 'tap'
import { BYTES, WireReader } from '../../src/core/codecs/protobuf/protobuf-wire.js'
import { HOST } from './address.js'

export const EXPORT = '/opentelemetry.proto.collector.logs.v1.LogsService/Export'

export interface Answered {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

/** Sends a request of OTLP over HTTP, in protobuf unless the headers say otherwise. */
export function post(
  port: number,
  body: Buffer | string,
  headers: http.OutgoingHttpHeaders = {},
  path = '/v1/logs',
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const all = { 'content-type': 'application/x-protobuf', ...headers }
    const request = http.request({ host: HOST, port, path, method: 'POST', agent: false, headers: all }, response => {
      const parts: Buffer[] = []
      response.on('data', part => parts.push(part)).on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts) }),
      )
    })
    request.on('error', reject)
    request.end(body)
  })
}

export interface Called {
  readonly code: number
  readonly details: string
  readonly message: Buffer | undefined
  readonly metadata: Metadata | undefined
}

/** A client of gRPC by others. */
export function clientOf(t: Test, port: number, options: object = {}, host = HOST) {
  const Client = makeGenericClientConstructor({}, 'Logs')
  const client = new Client(`${host}:${port}`, credentials.createInsecure(), options)
  t.teardown(() => client.close())
  return (message: Buffer, { path = EXPORT, deadlineMs = 20_000, headers = {} } = {}): Promise<Called> =>
    new Promise(resolve => {
      const metadata = new Metadata()
      for (const [name, value] of Object.entries(headers)) metadata.set(name, String(value))
      const same = (bytes: Buffer) => bytes
      const answered = (error: ServiceError | null, answer?: Buffer) =>
        resolve({ code: error?.code ?? 0, details: error?.details ?? '', message: answer, metadata: error?.metadata })
      client.makeUnaryRequest(path, same, same, message, metadata, { deadline: Date.now() + deadlineMs }, answered)
    })
}

const RETRY_INFO = 'type.googleapis.com/google.rpc.RetryInfo'

/** The delay in the RetryInfo of a google.rpc.Status, in milliseconds; undefined if it has none. */
export function retryDelayOf(status: Buffer): number | undefined {
  for (const detail of messagesIn(status, 3)) {
    const [type] = messagesIn(detail, 1)
    if (type?.toString() !== RETRY_INFO) continue
    const [value] = messagesIn(detail, 2)
    const [delay] = value ? messagesIn(value, 1) : []
    if (!delay) return 0
    const [reader, found] = [WireReader.of(delay), [0, 0, 0]]
    while (reader.p < reader.end) found[(reader.varint() >>> 3) % 3] = reader.varint() >>> 0
    return found[1]! * 1000 + Math.ceil(found[2]! / 1e6)
  }
  return undefined
}

function messagesIn(message: Buffer, number: number): Buffer[] {
  const found: Buffer[] = []
  for (const reader = WireReader.of(message); reader.p < reader.end; ) {
    const tag = reader.varint()
    if (tag === ((number << 3) | BYTES)) found.push(reader.inner().rest())
    else reader.skip(tag)
  }
  return found
}
