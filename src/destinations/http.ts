import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Dispatcher } from 'undici'
import { encodeAlone } from '../codecs/encode.js'
import { AccessKey } from '../core/access-key.js'
import { keyFileWarnings } from '../core/auth-options.js'
import type { EventBatch } from '../core/batch.js'
import {
  type Destination,
  type DestinationContext,
  defineDestination,
  type HandoverState,
  type OptionWarning,
  type Receipt,
} from '../core/component.js'
import { DeliveryError, type Failure } from '../core/errors.js'
import { written } from '../core/explain.js'
import { bodyText, connectionAdvice, cutText, drain, failureOf, retryAfterMs } from '../http/client/answer.js'
import { BodyMemory } from '../http/client/body-memory.js'
import { type Divided, divided } from '../http/client/divided.js'
import { proxyWords } from '../http/client/network-error.js'
import { type HttpOptions, options } from '../http/client/options.js'
import { type ErrorList, readErrors } from '../http/client/read-errors.js'
import { Transport, withoutQuery } from '../http/client/transport.js'
import { packageVersion } from '../lib/version.js'

/** Values of headers at least this long are kept out of every text. */
const SECRET_LENGTH = 8
const PLAIN = 'text/plain; charset=utf-8'
const LF = 0x0a

const COMPRESSORS = {
  none: undefined,
  gzip: promisify(zlib.gzip),
  zstd: compressor('zstdCompress'),
}

/** A request as it is sent, the same at each attempt. */
interface Prepared {
  /** Before compression; undefined: it is compressed. */
  plain: Buffer | undefined
  compressed?: Promise<Buffer>
  readonly idempotencyKey: string
}

class HttpDestination implements Destination {
  readonly #options: HttpOptions
  readonly #context: DestinationContext
  readonly #key: AccessKey | undefined
  readonly #headers: Record<string, string>
  readonly #prepared = new WeakMap<readonly EventBatch[], Prepared>()
  readonly #transport: Transport
  readonly #memory = new BodyMemory(() => this.#transport.flushed())

  constructor(options: HttpOptions, context: DestinationContext) {
    this.#options = options
    this.#context = context
    this.#transport = new Transport(options, context)
    if (options.auth.type === 'token') this.#key = new AccessKey(options.auth, context.log, context.reach)
    this.#headers = { 'user-agent': `sluice/${packageVersion()}`, accept: 'application/json' }
    if (options.delegate_account_id) this.#headers['x-delegate-account-id'] = options.delegate_account_id
    this.#warnOfPlainKey()
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#transport.open()
    const { validate } = this.#options
    if (validate === undefined) await this.#key?.current()
    else await this.#validate(validate, signal)
  }

  sizeOf(request: readonly EventBatch[], maxBytes: number): number {
    const { parts, bytes } = encodeAlone(this.#options.encoding, request)
    // A copy: a receiver may answer before it has read all of it, and the batches' own bytes are used again then.
    if (bytes <= maxBytes) {
      this.#prepared.set(request, { plain: this.#memory.join(parts, bytes), idempotencyKey: randomUUID() })
    }
    return bytes
  }

  async write(request: readonly EventBatch[], signal: AbortSignal): Promise<Receipt> {
    const { url, method, encoding, compression } = this.#options
    const prepared = this.#prepare(request)
    const { idempotencyKey } = prepared
    const body = await this.#bodyOf(prepared)
    const headers: Record<string, string> = {
      'content-type': encoding === 'raw' ? PLAIN : (encoding.definition.contentType ?? PLAIN),
      'idempotency-key': idempotencyKey,
    }
    if (compression !== 'none') headers['content-encoding'] = compression
    try {
      const answer = await this.#send(url, method, headers, body, signal)
      const requestId = text(answer.headers['x-request-id'])
      this.#count(String(answer.statusCode), requestId)
      const place = `${method} ${withoutQuery(url)}`
      if (!isSuccess(answer.statusCode)) throw await this.#refusal(answer, place, request)
      const refused = await this.#refusedOf(answer, place, request)
      this.#finish(request, body)
      if (refused) throw refused
      return { requestId }
    } catch (error) {
      if (error instanceof DeliveryError && error.status === undefined && error.failure === 'retry')
        this.#count(error.reason)
      throw error
    }
  }

  async changed(): Promise<boolean> {
    const [key, files] = await Promise.all([this.#key?.changed() ?? false, this.#transport.changed()])
    return key || files
  }

  handOver(): HandoverState | undefined {
    return this.#transport.handOver()
  }

  async stop(): Promise<void> {
    await this.#transport.stop()
  }

  async #validate(url: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#send(url, 'HEAD', {}, null, signal)
    const { statusCode: status, headers } = answer
    const place = withoutQuery(url)
    if (!isSuccess(status)) {
      const error = await this.#refusal(answer, `HEAD ${place}`)
      if (error.failure === 'retry' || error.failure === 'hold') throw error
      throw this.#error(`${error.message}; "validate" must be an address that answers HEAD with 200`, 'hold', answer)
    }
    await drain(answer.body)
    const fields = {
      url: place,
      request_id: text(headers['x-request-id']),
      subject: text(headers['x-auth-subject-id']),
      account: text(headers['x-auth-account-id']),
      account_short_id: text(headers['x-auth-account-short-id']),
      enterprise: text(headers['x-auth-enterprise-id']),
      access_type: text(headers['x-auth-access-type']),
    }
    this.#context.log.info(fields, 'destination accepts the access key')
  }

  async #send(
    url: string,
    method: Dispatcher.HttpMethod,
    headers: Record<string, string>,
    body: Buffer | null,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const { auth } = this.#options
    const key = await this.#key?.current()
    const { origin, pathname, search } = new URL(url)
    const all: Record<string, string> = { ...this.#headers, ...headers }
    for (const [name, value] of Object.entries(this.#options.headers)) all[name.toLowerCase()] = value
    if (key !== undefined) all[auth.header.toLowerCase()] = auth.scheme ? `${auth.scheme} ${key}` : key
    return await this.#transport.request({ origin, path: pathname + search, method, headers: all, body }, url, signal)
  }

  #prepare(request: readonly EventBatch[]): Prepared {
    if (!this.#prepared.has(request)) this.sizeOf(request, Number.POSITIVE_INFINITY)
    return this.#prepared.get(request)!
  }

  async #bodyOf(prepared: Prepared): Promise<Buffer> {
    const compress = COMPRESSORS[this.#options.compression]
    const { plain } = prepared
    if (plain && !compress) return plain
    if (plain && compress) prepared.compressed ??= compress(plain)
    try {
      const body = await prepared.compressed!
      if (prepared.plain) this.#memory.giveBack(prepared.plain)
      prepared.plain = undefined
      return body
    } catch (error) {
      delete prepared.compressed
      throw error
    }
  }

  /** The request is delivered: it is not tried again. */
  #finish(request: readonly EventBatch[], body: Buffer): void {
    this.#prepared.delete(request)
    if (this.#options.compression === 'none') this.#memory.giveBack(body)
  }

  /** What an answer that accepts a request says of single events that it does not, if anything. */
  async #refusedOf(
    answer: Dispatcher.ResponseData,
    place: string,
    request: readonly EventBatch[],
  ): Promise<DeliveryError | undefined> {
    const { statusCode: status, headers, body } = answer
    if (!mayBeJson(headers)) {
      await drain(body)
      return undefined
    }
    const list = await readErrors(body)
    const incomplete = list.broken !== undefined || list.unreadable
    if (incomplete && headers['content-type'] === undefined) return undefined
    // Without its end nobody knows what it would have refused.
    if (list.broken !== undefined) throw this.#transport.broken(list.broken, place, this.#options.url)
    if (list.unreadable) return this.#unreadable(answer, place)
    const found = divided(list.entries, status, () => this.#eventsIn(request))
    return found && this.#error(this.#told(answer, place, found.message ?? list.text), found.failure, answer, found)
  }

  /** What a refusing answer means, and what to do about it. */
  async #refusal(
    answer: Dispatcher.ResponseData,
    place: string,
    request?: readonly EventBatch[],
  ): Promise<DeliveryError> {
    const { statusCode: status, headers, body } = answer
    const failure = failureOf(status)
    const mayDivide = request !== undefined && failure === 'reject' && mayBeJson(headers)
    const list: Partial<ErrorList> = mayDivide ? await readErrors(body) : { text: await bodyText(body) }
    if (list.unreadable) return this.#unreadable(answer, place)
    const found = mayDivide ? divided(list.entries, status, () => this.#eventsIn(request)) : undefined
    const said = found?.message ?? list.text ?? ''
    const advice = found ? undefined : connectionAdvice(status, said)
    if (advice !== undefined) return this.#error(this.#told(answer, place, said) + advice, 'hold', answer)
    return this.#error(this.#told(answer, place, said), found?.failure ?? failure, answer, found)
  }

  /** A smaller request has a shorter answer. A single event whose answer is still too long counts as refused. */
  #unreadable({ statusCode: status, headers }: Dispatcher.ResponseData, place: string): DeliveryError {
    const message = `${status} from ${place}: the answer is too long to be read, so it is not known which events were refused; they are sent again in smaller requests`
    const requestId = text(headers['x-request-id'])
    return new DeliveryError(message, { failure: 'too_large', reason: 'answer_too_large', status, requestId })
  }

  #told({ statusCode: status, headers }: Dispatcher.ResponseData, place: string, text: string): string {
    const said = cutText(this.#withoutSecrets(text))
    const proxy = this.#transport.answeringProxy(this.#options.url)
    const through = proxy === undefined ? '' : ` through the proxy ${proxy}`
    return `${status} from ${place}${through}${said ? `: ${said}` : ''}${this.#advice(status, headers)}`
  }

  /** How many events the receiver can tell apart; 0: its lines are not our events. */
  #eventsIn(request: readonly EventBatch[]): number {
    const events = request.reduce((sum, { length }) => sum + length, 0)
    const { encoding } = this.#options
    if (encoding !== 'raw' && encoding.form === 'object') return events
    const { parts, bytes } = encodeAlone(encoding, request)
    return countLines(Buffer.concat(parts, bytes)) === events ? events : 0
  }

  #advice(status: number, headers: Dispatcher.ResponseData['headers']): string {
    if (status === 401 || status === 403) {
      const what = status === 401 ? 'the access key was refused' : 'the access key lacks a permission'
      return this.#key ? `; ${what}: put another ${this.#key.place}` : '; it wants an access key: set "auth"'
    }
    if (status >= 300 && status < 400) {
      const to = text(headers.location)
      const shown = to ? withoutQuery(to) : 'elsewhere'
      return `; it redirects to ${shown}, which is not followed: set that address in the configuration`
    }
    if (status === 407) return `; a proxy answered this${proxyWords(status)}`
    if (status === 404) return '; there is nothing at this address'
    return ''
  }

  #error(
    message: string,
    failure: Failure,
    { statusCode, headers }: Dispatcher.ResponseData,
    found?: Divided,
  ): DeliveryError {
    const status = found?.status ?? statusCode
    return new DeliveryError(this.#withoutSecrets(message), {
      failure,
      reason: isSuccess(status) ? 'rejected' : `status_${status}`,
      status,
      rejected: found?.rejected,
      again: found?.again,
      requestId: text(headers['x-request-id']),
      retryAfterMs: retryAfterMs(text(headers['retry-after']), this.#context.clock.wall()),
    })
  }

  /** A receiver may repeat what it was sent. */
  #withoutSecrets(text: string): string {
    const secrets = Object.values(this.#options.headers).filter(value => value.length >= SECRET_LENGTH)
    if (this.#key?.last) secrets.push(this.#key.last)
    secrets.push(...this.#transport.secrets)
    return secrets.reduce((rest, secret) => rest.replaceAll(secret, '[hidden]'), text)
  }

  #count(status: string, requestId?: string): void {
    const { metrics, clock } = this.#context
    const help = 'Requests by the status of the answer, or by why there was none.'
    const counter = metrics.counter('sluice_http_requests_total', help, { status })
    counter.value++
    if (requestId !== undefined) counter.exemplar = { requestId, at: clock.wall() }
  }

  #warnOfPlainKey(): void {
    const host = plainKeyHost(this.#options)
    if (host !== undefined) this.#context.log.warn({ host }, 'the access key is sent without encryption; use https')
  }
}

/** The other machine to which the key is sent without encryption; undefined: it is not. */
function plainKeyHost({ url, auth }: HttpOptions): string | undefined {
  const { hostname, protocol } = new URL(url)
  const isPrivate = auth.type === 'none' || protocol === 'https:' || /^(localhost|127\..*|\[::1\])$/.test(hostname)
  return isPrivate ? undefined : hostname
}

function warningsOf(options: HttpOptions): OptionWarning[] {
  const host = plainKeyHost(options)
  const plain = 'the access key is sent without encryption to another machine; use https'
  return [...(host === undefined ? [] : [{ path: ['url'], message: plain }]), ...keyFileWarnings(options.auth)]
}

function compressor(name: string): ((body: Buffer) => Promise<Buffer>) | undefined {
  const compress = (zlib as unknown as Record<string, typeof zlib.gzip | undefined>)[name]
  return compress && promisify(compress)
}

function countLines(bytes: Buffer): number {
  let lines = 0
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++
  return bytes.at(-1) === LF ? lines : lines + 1
}

/** Whether an answer may be JSON. Small receivers do not say what they send. */
function mayBeJson(headers: Dispatcher.ResponseData['headers']): boolean {
  const type = text(headers['content-type'])
  return type === undefined || /^(application\/([\w.-]+\+)?|text\/)json\b/i.test(type)
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function text(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header
}

export const http = defineDestination({
  type: 'http',
  summary: 'Sends events over HTTP, in requests of NDJSON or lines.',
  notes:
    'Answers: 2xx is delivered. 401, 403, 407 (from a proxy) and redirects hold: nothing is dropped, and a replaced key is used within a second. 408, 425, 429, 5xx and network errors are tried again, after Retry-After where it is given. 413 sends the request again in halves. Every other 4xx goes where `on_reject` says, with the reason `status_NNN`, until `hold_after_refusals` of them came in a row. An answer 400 of a web server that wants TLS or another client certificate holds.\n\nA receiver may tell events apart, with an answer in JSON, whose content type is JSON or left out: `{"errors":[{"index":3,"status":400,"message":"..."}]}`, where `index` counts the events of the request from 0, and `status` and `message` may be left out. After a 2xx the events that are not listed are delivered; after a 4xx that is final they are sent again without those listed. A listed event goes where `on_reject` says, or is sent again when its own `status` is one that is held or tried again. This works where every event is one line: always with `encoding: json`.\n\n`auth` with `type: token` needs exactly one of `key`, `key_file` and `credential`. `tls.cert_file` and `tls.key_file` belong together. Each request has an `idempotency-key` that stays the same when it is tried again.',
  options,
  examples: [
    {
      title: 'A service with an access key',
      yaml: 'url: https://logs.example.com/v3/ingest/0123456789ab\nauth: { key_file: /etc/sluice/access-key }\nvalidate: https://logs.example.com/v3/pipeline\ncompression: gzip\n',
    },
    {
      title: 'Another scheme, a systemd credential, and an authority of your own',
      yaml: 'url: https://10.0.0.5:8443/ingest\nauth: { scheme: Bearer, credential: access-key }\ntls: { ca_file: /etc/sluice/ca.pem, server_name: logs.internal }\nheaders: { X-Team: platform }\n',
    },
    { title: 'The lines as they were read, without a key', yaml: 'url: http://127.0.0.1:8080/lines\nencoding: raw\n' },
  ],
  warnings: warningsOf,
  create: (options, context) => new HttpDestination(options, context),
  explain:
    ({ method, url, encoding, compression }) =>
    batch => ({
      outcome: 'delivered',
      findings: [
        { text: `${method} ${withoutQuery(url)}${compression === 'none' ? '' : `, compressed by ${compression}`}` },
      ],
      bytes: written(encodeAlone(encoding, [batch])),
    }),
})
