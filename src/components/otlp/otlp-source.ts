import type { IncomingHttpHeaders } from 'node:http'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import { NotProtobuf } from '../../core/codecs/protobuf/protobuf-wire.js'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { LF } from '../../lib/formats/ascii.js'
import { objectEnd, skipSpace } from '../../lib/formats/json-scan.js'
import { nextTurn } from '../../lib/time.js'
import { FRAME_HEAD, frameEncoding, GRPC_ENCODINGS } from '../../net/grpc/frames.js'
import { type GrpcCall, grpcServer } from '../../net/grpc/grpc-intake.js'
import { GRPC_STATUSES, grpcStatusOf, statusMessage } from '../../net/grpc/status.js'
import { checkAccess, checkSize, checkTransport, encodingOf, mediaType } from '../../net/http/events/checks.js'
import { sendPortions } from '../../net/http/events/send-body.js'
import { type BodyOptions, readBody } from '../../net/http/server/body.js'
import { freeBody } from '../../net/http/server/body-memory.js'
import type { Exchange, Refusable } from '../../net/http/server/exchange.js'
import { httpServer } from '../../net/http/server/http-intake.js'
import { LoggedRefusal, Refusal, stopping } from '../../net/http/server/refusal.js'
import type { Reply } from '../../net/http/server/respond.js'
import { addressOf, checkMethod } from '../../net/http/server/router.js'
import { Intake, type OpenRequest } from '../../net/intake.js'
import { AccessKey } from '../../net/key.js'
import { peerOf } from '../../net/listen.js'
import { answerJson, answerProtobuf, type RefusedRecords } from './export-answer.js'
import { ExportLines } from './export-lines.js'
import { readJsonExport } from './json-export.js'
import { LOGS_PATH } from './options.js'
import { checkExport, readExport } from './protobuf-export.js'
import { exposureWarnings, type OtlpSourceOptions } from './source-options.js'

const EXPORT = '/opentelemetry.proto.collector.logs.v1.LogsService/Export'
/** What clients also send, by path. */
const OTHERS =
  /^\/v1(?:development)?\/(metrics|traces|profiles)$|^\/opentelemetry\.proto\.collector\.(metrics|trace|profiles)\./
/** Larger requests in JSON would hold the event loop, because the whole JSON is checked at once. */
const MOST_JSON_BYTES = 16 * 1024 * 1024

type Content = 'protobuf' | 'json'

/** A request with its body. */
interface Export {
  readonly asked: OpenRequest & Refusable
  readonly stream: Parameters<typeof readBody>[0]
  readonly content: Content
  readonly body: Pick<BodyOptions, 'encoding' | 'skip'>
  /** Where the content begins in the body that was read. */
  start(): number
}

export class OtlpSource implements Source {
  readonly answers = true
  readonly #options: OtlpSourceOptions
  readonly #context: SourceContext
  readonly #intake: Intake
  readonly #key: AccessKey | undefined
  readonly #refused: { value: number }
  /** What other than logs was sent, and logged. */
  readonly #logged = new Set<string>()

  constructor(options: OtlpSourceOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    const { request_timeout: requestMs } = options
    this.#intake = new Intake({ ...options, headers_timeout: requestMs, send_timeout: requestMs }, context)
    this.#key = AccessKey.of(options.auth, context.log, context.reach)
    const help = 'Records that were refused: they are not valid, or too large. The answer to the client says why.'
    this.#refused = context.metrics.counter('sluice_otlp_refused_records_total', help)
    for (const { message } of exposureWarnings(options)) context.log.warn(message)
  }

  async start(): Promise<void> {
    await this.#key?.current()
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { http, grpc, idle_timeout, request_timeout } = this.#options
    const intake = this.#intake
    const common = { intake, context: this.#context }
    const watched = intake.watched(out)
    const ofHttp = {
      ...common,
      take: (exchange: Exchange) => this.#takeHttp(exchange, watched, signal),
      refusal: httpRefusal,
    }
    const ofGrpc = { ...common, take: (call: GrpcCall) => this.#takeGrpc(call, watched, signal) }
    const timeouts = { headers_timeout: request_timeout, request_timeout, keep_alive_timeout: idle_timeout }
    const open = async () => {
      if (http) await intake.listener.open(http.listen, tls => httpServer(tls, timeouts, ofHttp, signal))
      if (grpc) await intake.listener.open(grpc.listen, tls => grpcServer(tls, this.#options, ofGrpc, signal))
    }
    await intake.run(open, signal)
  }

  async stop(): Promise<void> {
    await this.#intake.stop()
  }

  async #takeHttp(exchange: Exchange, out: Output, signal: AbortSignal): Promise<Reply> {
    const { request } = exchange
    const { headers } = request
    const { path } = addressOf(request)
    await this.#check(headers, path, signal)
    if (path !== LOGS_PATH) throw new Refusal(404, 'not_found', `send logs to ${LOGS_PATH}`)
    checkMethod(request, ['POST'])
    checkTransport(request)
    const content = contentOf(headers)
    const encoding = encodingOf(headers, GRPC_ENCODINGS)
    checkSize(headers, this.#maxBytes(content))
    const refused = await this.#take(
      { asked: exchange, stream: request, content, body: { encoding }, start: () => 0 },
      out,
      signal,
    )
    const body = content === 'json' ? answerJson(refused) : answerProtobuf(refused)
    return { status: 200, headers: { 'content-type': headerOf(content) }, body }
  }

  async #takeGrpc(asked: GrpcCall, out: Output, signal: AbortSignal): Promise<Buffer> {
    const { headers, stream } = asked
    const path = String(headers[':path'])
    await this.#check(headers, path, signal)
    if (path !== EXPORT) throw new Refusal(404, 'not_found', `call ${EXPORT}`)
    let start = FRAME_HEAD
    const encoding = (bytes: Buffer) => {
      const found = frameEncoding(bytes, headers)
      if (found) start = 0
      return found
    }
    const body = { encoding, skip: FRAME_HEAD }
    const call = { asked, stream, content: 'protobuf', body, start: () => start } as const
    return answerProtobuf(await this.#take(call, out, signal))
  }

  async #check(headers: IncomingHttpHeaders, path: string, signal: AbortSignal): Promise<void> {
    await checkAccess(headers, this.#options.auth, this.#key)
    if (signal.aborted) throw stopping()
    const [, ofHttp, ofGrpc] = OTHERS.exec(path) ?? []
    const other = ofHttp ?? ofGrpc
    if (other === undefined) return
    if (!this.#logged.has(other)) this.#context.log.warn({ path }, `refusing ${other}: this source only takes logs`)
    this.#logged.add(other)
    throw new LoggedRefusal(404, 'only_logs', `this server only takes logs; do not send ${other} to it`)
  }

  #maxBytes(content: Content): number {
    const { max_bytes } = this.#options
    return content === 'json' ? Math.min(max_bytes, MOST_JSON_BYTES) : max_bytes
  }

  /** Resolves when the records are safe. */
  async #take(
    { asked, stream, content, body, start }: Export,
    out: Output,
    signal: AbortSignal,
  ): Promise<RefusedRecords> {
    await this.#intake.room()
    const maxBytes = this.#maxBytes(content)
    const peer = peerOf(asked.socket)
    const refused = await this.#intake.take(asked, async lease => {
      const onBegin = (fail: (refusal: Refusal) => void) => asked.reading(fail)
      const { bytes, size } = await readBody(stream, { ...body, maxBytes, lease, onBegin })
      asked.read()
      lease.received()
      if (signal.aborted) throw stopping()
      const lines = new ExportLines(size, peer, this.#options.max_line_bytes)
      const portions = portionsOf(content, bytes, start(), size, lines)
      const sending = { context: this.#context, out, turn: () => nextTurn() }
      try {
        const { settled } = await sendPortions(portions, this.#context.origin(JSON_OBJECTS), sending)
        return { result: lines, settled }
      } finally {
        freeBody(bytes)
      }
    })
    this.#refused.value += refused.refused
    return refused
  }
}

const contentOf = (headers: IncomingHttpHeaders): Content => {
  const type = mediaType(headers['content-type'])
  if (type === 'application/json') return 'json'
  if (type === 'application/x-protobuf' || type === 'application/protobuf') return 'protobuf'
  throw new Refusal(415, 'unsupported_content', 'content-type must be application/x-protobuf or application/json')
}

const headerOf = (content: Content) => (content === 'json' ? 'application/json' : 'application/x-protobuf')

/** The records of a request as lines of JSON. Throws a Refusal before the first line if the request is malformed. */
function* portionsOf(content: Content, b: Buffer, start: number, end: number, lines: ExportLines) {
  if (content === 'json') {
    // Every scan stops at this line end.
    b[end] = LF
    const from = skipSpace(b, start, end)
    const stop = objectEnd(b, from, end)
    if (stop < 0 || skipSpace(b, stop, end) !== end) throw malformed('a JSON object')
    yield* readJsonExport(b, from, stop, lines)
    return
  }
  try {
    yield* checkExport(b, start, end)
  } catch (error) {
    throw error instanceof NotProtobuf ? malformed('an export request in protobuf') : error
  }
  yield* readExport(b, start, end, lines)
}

const malformed = (what: string) =>
  new Refusal(400, 'malformed', `the request is not ${what}; no record of it was accepted`)

/** The reply to a refused request, in the format of the request. Too much to do is 429, as the protocol wants it. */
function httpRefusal(refusal: Refusal, { headers }: { readonly headers: IncomingHttpHeaders }): Reply {
  const { message, close } = refusal
  const code = GRPC_STATUSES.indexOf(grpcStatusOf(refusal))
  const isJson = mediaType(headers['content-type']) === 'application/json'
  const body = isJson ? { code, message } : statusMessage(code, message)
  const type = { 'content-type': headerOf(isJson ? 'json' : 'protobuf') }
  const status = refusal.code === 'overloaded' ? 429 : refusal.status
  return { status, headers: { ...refusal.headers, ...type }, body, close }
}
