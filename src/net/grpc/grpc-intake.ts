import {
  type Http2Session,
  constants as http2,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Stream,
} from 'node:http2'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import type { SourceContext } from '../../core/component.js'
import { after } from '../../lib/time.js'
import { Refusable } from '../http/server/exchange.js'
import { Gone, notReadable, Refusal } from '../http/server/refusal.js'
import { headerText } from '../http/server/respond.js'
import type { Intake, OpenRequest } from '../intake.js'
import { GRPC_ENCODINGS, messageHead, timeoutOf } from './frames.js'
import { GRPC_STATUSES, type GrpcStatus, grpcStatusOf, statusMessage } from './status.js'

/** Maximum number of concurrent calls of one connection. */
const AT_ONCE = 100
/** Maximum memory of a connection, in megabytes, besides the messages that are counted. */
const SESSION_MEGABYTES = 4
const LATE = 'the events were not safe before the deadline of the call; send them again'
const { NGHTTP2_NO_ERROR, NGHTTP2_ENHANCE_YOUR_CALM } = http2

export interface GrpcIntakeOptions {
  readonly idle_timeout: number
  readonly request_timeout: number
}

export interface GrpcAnswering {
  readonly intake: Intake
  readonly context: SourceContext
  /** Resolves with the message that answers a call. May throw a Refusal. */
  take(call: GrpcCall): Promise<Buffer>
}

/** A unary call. Its body is read from `stream`. */
export class GrpcCall extends Refusable implements OpenRequest {
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
  readonly socket: Socket
  readonly closed: Promise<void>

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, socket: Socket) {
    super()
    this.stream = stream
    this.headers = headers
    this.socket = socket
    // A connection that takes no further calls ends after its last answer.
    const { session } = stream
    this.closed = new Promise(resolve =>
      stream.once('close', () => (session?.closed && !session.destroyed ? session.once('close', resolve) : resolve())),
    )
    stream.on('error', () => {})
  }

  /** Answers once. Without a message, there are only trailers. */
  answer(status: GrpcStatus, text: string, message?: Buffer, retrySeconds?: number): void {
    const { stream } = this
    if (stream.destroyed || stream.headersSent) return
    const code = GRPC_STATUSES.indexOf(status)
    const details = retrySeconds === undefined ? undefined : statusMessage(code, text, retrySeconds).toString('base64')
    const trailers = {
      'grpc-status': String(code),
      ...(text && { 'grpc-message': headerText(text) }),
      ...(details && { 'grpc-status-details-bin': details }),
    }
    const headers = {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-accept-encoding': ['identity', ...GRPC_ENCODINGS].join(','),
    }
    if (message) {
      stream.respond(headers, { waitForTrailers: true })
      stream.once('wantTrailers', () => stream.sendTrailers(trailers))
      stream.write(messageHead(message.length))
      stream.end(message)
    } else stream.respond({ ...headers, ...trailers }, { endStream: true })
    // A client that is still sending shall stop, when it has the answer.
    if (!stream.readableEnded) setImmediate(() => stream.close(NGHTTP2_NO_ERROR))
  }
}

/** The gRPC server of an intake. When the signal aborts, connections take no further calls. */
export function grpcServer(
  tls: TlsOptions | undefined,
  options: GrpcIntakeOptions,
  answering: GrpcAnswering,
  signal: AbortSignal,
): Server {
  const serve = (socket: Socket) => serveConnection(socket, options, answering, signal)
  return tls ? createTlsServer({ ...tls, ALPNProtocols: ['h2'] }, serve) : createServer(serve)
}

function serveConnection(socket: Socket, options: GrpcIntakeOptions, answering: GrpcAnswering, signal: AbortSignal) {
  const { listener } = answering.intake
  listener.watch(socket)
  const session = performServerHandshake(socket, {
    maxSessionMemory: SESSION_MEGABYTES,
    settings: { maxConcurrentStreams: AT_ONCE, enablePush: false },
  })
  let calls = 0
  const leave = () => session.close()
  const end = (code: number) => endSession(session, socket, code)
  signal.addEventListener('abort', leave)
  session.once('close', () => signal.removeEventListener('abort', leave))
  session.on('error', () => end(NGHTTP2_NO_ERROR))
  session.setTimeout(options.idle_timeout, () => calls === 0 && end(NGHTTP2_NO_ERROR))
  session.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    // The client may not have seen the limit yet; more than that is an attack.
    if (++calls > 2 * AT_ONCE) end(NGHTTP2_ENHANCE_YOUR_CALM)
    const done = listener.connections.called(socket)
    stream.once('close', () => {
      calls--
      done()
    })
    void answerCall(new GrpcCall(stream, headers, socket), options, answering)
  })
}

function endSession(session: Http2Session, socket: Socket, code: number): void {
  if (!session.destroyed) session.destroy(undefined, code)
  socket.destroySoon()
}

async function answerCall(call: GrpcCall, options: GrpcIntakeOptions, { intake, context, take }: GrpcAnswering) {
  const { stream, headers, socket } = call
  intake.begin(call)
  const stopTimer = after(options.request_timeout, () => stream.readableEnded || call.refuse(notReadable(408)))
  const timeout = timeoutOf(headers)
  const stopDeadline = timeout === undefined ? () => {} : after(timeout, () => call.answer('DEADLINE_EXCEEDED', LATE))
  let status: GrpcStatus = 'OK'
  try {
    if (
      headers[':method'] !== 'POST' ||
      !/^application\/grpc(?:\+proto)?(?:;|$)/.test(String(headers['content-type']))
    ) {
      throw new Refusal(415, 'no_grpc', 'this address takes calls of gRPC with protobuf')
    }
    call.answer('OK', '', await take(call))
  } catch (error) {
    status = refuse(call, error, intake)
  } finally {
    stopTimer()
    stopDeadline()
    count(context, socket.destroyed && status === 'OK' ? 'CANCELLED' : status)
  }
}

/** Answers with an error. Returns its status. */
function refuse(call: GrpcCall, error: unknown, intake: Intake): GrpcStatus {
  if (error instanceof Gone) {
    intake.refused(call.socket, { code: 'aborted', message: 'the client left before its message was complete' })
    call.answer('CANCELLED', '')
    return 'CANCELLED'
  }
  if (!(error instanceof Refusal)) intake.failed(error)
  const known = error instanceof Refusal ? error : new Refusal(500, 'failed', 'this call could not be handled')
  const { message, headers } = known
  if (known === error) intake.refused(call.socket, known)
  const status = grpcStatusOf(known)
  const retry = headers['retry-after']
  call.answer(status, message, undefined, retry === undefined ? undefined : Number(retry))
  return status
}

function count(context: SourceContext, status: GrpcStatus): void {
  const help = 'Calls over gRPC that were accepted or refused, by the status of the answer.'
  context.metrics.counter('sluice_grpc_answers_total', help, { status }).value++
}
