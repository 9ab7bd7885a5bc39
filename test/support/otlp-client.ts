import http from 'node:http'
import { credentials, Metadata, makeGenericClientConstructor, type ServiceError } from '@grpc/grpc-js'
import type { Test } from 'tap'
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
