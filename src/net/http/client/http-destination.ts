import { Readable } from 'node:stream'
import type { ComponentContext, Destination, HandoverState, Receipt } from '../../../core/component.js'
import { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { holdChunk } from '../../../lib/lines/chunk-pool.js'
import { aborted, deadline } from '../../../lib/time.js'
import { packageVersion } from '../../../lib/version.js'
import { AccessKey, headerValue } from '../../key.js'
import { withoutQuery } from '../../urls.js'
import { Answers, joinedHeader } from './answers/answers.js'
import { bodyJson, drain, shortBody } from './answers/read-answer.js'
import { isSuccess, requestCounter } from './answers/statuses.js'
import type { Answer } from './http-client.js'
import { type ClientOptions, plainKeyHost } from './options.js'
import { type Body, compressionOf, RequestBody } from './request-body.js'
import type { Inspection, RequestFormat } from './request-format.js'
import { type Head, RequestHeads, splitUrl } from './request-heads.js'
import { Transport } from './transport.js'

/** How long the start waits for the receiver to describe itself. */
const INSPECT_MS = 5000

const USER_AGENT = `sluice/${packageVersion()}`

export class HttpDestination implements Destination {
  readonly #options: ClientOptions
  readonly #format: RequestFormat
  readonly #context: ComponentContext
  readonly #key: AccessKey | undefined
  readonly #heads: RequestHeads
  readonly partitionOf?: NonNullable<Destination['partitionOf']>
  readonly isOnePartition: NonNullable<Destination['isOnePartition']>
  readonly targetOf?: NonNullable<Destination['targetOf']>
  readonly mostPartitions: number | undefined
  readonly #transport: Transport
  readonly #compress: ReturnType<typeof compressionOf>
  readonly #answers: Answers

  constructor(options: ClientOptions, format: RequestFormat, context: ComponentContext) {
    const { auth, compression } = options
    const { clock, log, reach } = context
    this.#options = options
    this.#format = format
    this.#context = context
    this.#key = AccessKey.of(auth, log, reach)
    this.#heads = new RequestHeads(format, options.headers, context.field)
    if (this.#heads.partitionOf) this.partitionOf = this.#heads.partitionOf
    this.isOnePartition = () => this.#heads.isOnePartition
    if (format.targetOf) this.targetOf = format.targetOf
    this.mostPartitions = format.mostPartitions
    this.#transport = new Transport(options, context)
    this.#compress = compressionOf(compression, format.gzipLevel)
    this.#answers = new Answers({ options, format, transport: this.#transport, key: this.#key, clock, log })
    const host = plainKeyHost(options)
    if (host !== undefined) log.warn({ host }, 'the access key is sent without encryption; use https')
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#transport.open()
    const { validate } = this.#options
    if (validate === undefined) await this.#currentKey(signal)
    else await this.#validate(validate, signal)
    if (this.#format.inspect) await this.#introduce(signal)
  }

  /** Logs how the receiver describes itself. Without a description, events are sent anyway. */
  async #introduce(signal: AbortSignal): Promise<void> {
    const { log } = this.#context
    const limit = deadline(INSPECT_MS, signal)
    try {
      const { server, problem } = await this.#inspect(limit.signal)
      if (server !== undefined) log.info({ server }, 'connected to the receiver')
      if (problem !== undefined) log.warn({ problem }, 'the configuration does not fit the receiver')
    } catch (error) {
      if (!(error instanceof DeliveryError || limit.signal.aborted)) throw error
    } finally {
      limit.clear()
    }
  }

  async #inspect(signal: AbortSignal): Promise<Inspection> {
    const inspection = await this.#format.inspect?.(async url => {
      const { statusCode, body } = await this.#send(
        { ...this.#heads.constant, address: splitUrl(url) },
        'GET',
        {},
        null,
        signal,
      )
      const found = await bodyJson(body)
      return isSuccess(statusCode) ? found : undefined
    })
    return inspection ?? {}
  }

  /** Like `check` of a definition. Call `start` first. */
  async check(signal: AbortSignal): Promise<string> {
    const { validate, auth } = this.#options
    const { url, contentType, emptyRequest, answerList, success } = this.#format
    const head = emptyRequest && this.#defaultHead()
    if (!head || head instanceof DeliveryError) {
      await this.#transport.connect(url)
      if (validate !== undefined) return auth.type === 'none' ? 'answers' : 'accepts the key'
      const instead = head
        ? `${head.message}, so a test request has no value for it`
        : 'set "validate" to a URL that answers HEAD with 200'
      return `connects, but did not check whether it accepts requests: ${instead}`
    }
    const { body, status, says } = emptyRequest!
    const parts = [Buffer.from(body)]
    const headers = { 'content-type': contentType }
    const answer = await this.#send(head, 'POST', headers, { parts, bytes: parts[0]!.length }, signal)
    const { content, text: said } = await shortBody(answer.body)
    const takes =
      this.#takes(answer.statusCode) &&
      (!answerList?.isWhole || said.startsWith('{')) &&
      (!success || (content && success(content, joinedHeader(answer.headers['content-type']) ?? '')))
    if (takes || (answer.statusCode === status && says.test(said))) {
      const { server, note, problem } = await this.#inspect(signal)
      if (problem !== undefined) throw new DeliveryError(problem, { failure: 'hold', reason: 'inspected' })
      return ['accepts requests', server, note].filter(text => text !== undefined).join('; ')
    }
    const read = { ...answer, body: Readable.from([content ?? Buffer.from(said)]) }
    throw await this.#answers.refusal(read, { place: head.place, request: [] })
  }

  /** The head of a request without events; an error if a template has a field without a default. */
  #defaultHead(): Head | DeliveryError {
    try {
      return this.#heads.ofDefaults()
    } catch (error) {
      if (error instanceof DeliveryError) return error
      throw error
    }
  }

  encode(request: readonly EventBatch[]): RequestBody {
    return new RequestBody(this.#heads.encode(request), this.#compress)
  }

  async write(
    request: readonly EventBatch[],
    signal: AbortSignal,
    partition?: string,
    body = this.encode(request),
  ): Promise<Receipt> {
    const { method = 'POST', contentType } = this.#format
    const head = this.#heads.of(partition)
    const { place } = head
    const { compression } = this.#options
    const content = await body.take()
    const headers: Record<string, string> = { 'content-type': contentType, 'idempotency-key': body.idempotencyKey }
    if (compression !== 'none') headers['content-encoding'] = compression
    const asked = { place, request }
    let answer: Answer | undefined
    try {
      answer = await this.#send(head, method, headers, content, signal)
      const requestId = joinedHeader(answer.headers['x-request-id'])
      this.#count(String(answer.statusCode), requestId)
      if (!this.#takes(answer.statusCode)) throw await this.#answers.refusal(answer, asked)
      const refused = await this.#answers.refusedOf(answer, asked)
      // A receiver may respond before the request is sent. Until it is sent, another request would only take memory.
      await answer.sent
      if (refused) throw refused
      body.delivered()
      return { requestId }
    } catch (error) {
      if (answer) holdUntil(answer.sent, request)
      if (error instanceof DeliveryError && error.status === undefined && error.failure === 'retry')
        this.#count(error.reason)
      throw error
    }
  }

  #takes(status: number): boolean {
    return isSuccess(status) && status === (this.#format.takenStatus ?? status)
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
    const answer = await this.#send({ ...this.#heads.constant, address: splitUrl(url) }, 'HEAD', {}, null, signal)
    const place = withoutQuery(url)
    const { headers, body } = answer
    if (!isSuccess(answer.statusCode)) throw await this.#answers.heldBy(answer, { place: `HEAD ${place}` })
    await drain(body)
    const fields = {
      url: place,
      request_id: joinedHeader(headers['x-request-id']),
      subject: joinedHeader(headers['x-auth-subject-id']),
      account: joinedHeader(headers['x-auth-account-id']),
      account_short_id: joinedHeader(headers['x-auth-account-short-id']),
      enterprise: joinedHeader(headers['x-auth-enterprise-id']),
      access_type: joinedHeader(headers['x-auth-access-type']),
    }
    this.#context.log.info(fields, 'destination accepts the access key')
  }

  async #send(
    { address: { url, target, path }, headers: formatHeaders, ownHeaders }: Omit<Head, 'place' | 'texts'>,
    method: 'POST' | 'PUT' | 'HEAD' | 'GET',
    headers: Record<string, string>,
    body: Body | null,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { auth } = this.#options
    const key = this.#key && (await this.#currentKey(signal))
    const all: Record<string, string> = {
      'user-agent': USER_AGENT,
      accept: 'application/json',
      'accept-encoding': 'identity',
      ...formatHeaders,
      ...headers,
      ...ownHeaders,
    }
    if (key !== undefined) all[auth.header.toLowerCase()] = headerValue(auth, key)
    return await this.#transport.request({ target, path, method, headers: all, body }, url, signal)
  }

  /** Rejects with the signal's reason as soon as the signal aborts, even if a program is still printing the key. */
  async #currentKey(signal: AbortSignal): Promise<string | undefined> {
    if (!this.#key) return undefined
    const key = await Promise.race([this.#key.current(), aborted(signal)])
    signal.throwIfAborted()
    return key as string
  }

  #count(status: string, requestId?: string): void {
    const { metrics, clock } = this.#context
    const counter = requestCounter(metrics, status)
    counter.value++
    if (requestId !== undefined) counter.exemplar = { requestId, at: clock.wall() }
  }
}

/** Keeps the bytes of a request until they are sent, even if the receiver refuses the request before that. */
function holdUntil(sent: Promise<void>, request: readonly EventBatch[]): void {
  const releases = request.map(({ chunk }) => holdChunk(chunk))
  void sent.then(() => {
    for (const release of releases) release?.()
  })
}
