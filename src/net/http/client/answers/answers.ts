import type { Logger } from 'pino'
import { DeliveryError, type Failure, RepeatedError } from '../../../../core/errors.js'
import type { EventBatch } from '../../../../core/event/batch.js'
import { hideSecrets } from '../../../../lib/formats/escapes.js'
import type { Clock } from '../../../../lib/time.js'
import { proxyWords } from '../../../explain.js'
import { type AccessKey, credentialsOf } from '../../../key.js'
import { decodedQuery, parametersOf, pathKeysOf, withoutQuery } from '../../../urls.js'
import type { Answer } from '../http-client.js'
import type { ClientOptions } from '../options.js'
import type { Refused, RequestFormat } from '../request-format.js'
import type { Transport } from '../transport.js'
import { type Divided, divided, type EventResult } from './divided.js'
import { bodyText, cutText, drain, eventsIn, oneLine, type ReadAnswer, readAnswer, shortBody } from './read-answer.js'
import { causeOf, connectionAdvice, failureOf, isSuccess, retryAfterMs } from './statuses.js'

/** Minimum length of header and query values that are redacted from every text. */
const SECRET_LENGTH = 8
/** The scheme before a key, as in `Bearer KEY`. */
const SCHEME = /^\w+ +(?=\S+$)/

export interface RequestPlace {
  /** Method and URL. */
  readonly place: string
  /** Undefined for a request without events. */
  readonly request?: readonly EventBatch[]
}

interface AnswersOf {
  readonly options: ClientOptions
  readonly format: RequestFormat
  readonly transport: Transport
  readonly key: AccessKey | undefined
  readonly clock: Clock
  readonly log: Logger
}

/** Decides what a response means for the events of its request, and what an operator can do about an error. */
export class Answers {
  readonly #of: AnswersOf
  #hasWarned = false

  constructor(of: AnswersOf) {
    this.#of = of
  }

  /** Resolves with the error for events that a success response rejects; undefined if it accepts all. */
  async refusedOf(answer: Answer, asked: RequestPlace): Promise<DeliveryError | undefined> {
    const { statusCode: status, headers, body } = answer
    const { answerList, success } = this.#of.format
    const { request } = asked
    if (success && request) return await this.#partly(answer, asked)
    const isWhole = answerList?.isWhole
    if (!answerList || !request || !(isWhole || mayBeJson(headers))) {
      await drain(body)
      return undefined
    }
    const read = await readAnswer(answer, answerList, request)
    // An incomplete response is an error, because the missing part may have listed rejected events.
    if (read.broken !== undefined && (isWhole || read.isUnreadable))
      throw this.#of.transport.broken(read.broken, asked.place, this.#of.format.url)
    if (read.isUnreadable) return this.#unreadable(answer, asked)
    if (isWhole && read.entries?.length !== this.#countable(request)) {
      return this.#ofSomebodyElse(answer, asked, read.text, `does not list the events in "${answerList.name}"`)
    }
    const found = divided(read.entries, status, eventsIn(request), () => this.#countable(request))
    return found && this.#divided(answer, asked, found, read.text)
  }

  /** The error for a response that reports how many events were rejected, but not which. */
  async #partly(answer: Answer, asked: RequestPlace): Promise<DeliveryError | undefined> {
    const { content, text: said, broken } = await shortBody(answer.body)
    if (broken !== undefined) throw this.#of.transport.broken(broken, asked.place, this.#of.format.url)
    const found = content && this.#of.format.success!(content, joinedHeader(answer.headers['content-type']) ?? '')
    if (!found) return this.#ofSomebodyElse(answer, asked, said, 'does not follow the protocol')
    const { refused } = found
    const message = oneLine(found.message)
    if (refused === 0) {
      if (message !== '' && !this.#hasWarned) {
        this.#hasWarned = true
        this.#of.log.warn({ said: this.#cut(message) }, 'the receiver sent a warning; this is logged only once')
      }
      return undefined
    }
    const all = this.#countable(asked.request!)
    const which =
      refused < all ? `${refused} of the ${all} events were refused, and the receiver does not say which` : ''
    const shown = [this.#shown(answer, asked, message), which].filter(Boolean).join('; ')
    return this.#error(shown, 'reject', answer, { reason: 'partial_success', ...(which && { refused }) })
  }

  /** The error and advice for a response with an error status, or with a success status that accepts no events. */
  async refusal(answer: Answer, asked: RequestPlace): Promise<DeliveryError> {
    const { statusCode: status, headers, body } = answer
    const { request } = asked
    const { answerList, words } = this.#of.format
    const failure = failureOf(status)
    const mayDivide = request !== undefined && failure === 'reject' && mayBeJson(headers) ? answerList : undefined
    const read: Partial<ReadAnswer> = mayDivide
      ? await readAnswer(answer, mayDivide, request!)
      : {
          text: await bodyText(body, words && (content => words(content, joinedHeader(headers['content-type']) ?? ''))),
        }
    if (read.isUnreadable) return this.#unreadable(answer, asked)
    const found = mayDivide && divided(read.entries, status, eventsIn(request!), () => this.#countable(request!))
    const said = found?.first.message ?? read.text ?? ''
    const advice = found ? undefined : connectionAdvice(status, said)
    if (advice !== undefined) return this.#error(this.#shown(answer, asked, said) + advice, 'hold', answer)
    if (found) return this.#divided(answer, asked, found, said)
    const own = request && this.#of.format.refusal?.(status, said, request)
    if (own && (own.failure || !isSuccess(status))) {
      const shown = this.#shown(answer, asked, said, own.advice && `; ${own.advice}`)
      return this.#error(shown, own.failure ?? failure, answer, own)
    }
    if (isSuccess(status)) return this.#ofSomebodyElse(answer, asked, said, 'is not from a receiver of events')
    return this.#error(this.#shown(answer, asked, said), failure, answer)
  }

  /** The error for a success response that does not come from a receiver of events. Delivery pauses. */
  #ofSomebodyElse(answer: Answer, asked: RequestPlace, text: string, why: string): DeliveryError {
    const shown = `${this.#shown(answer, asked, text)}; the answer ${why}: is that the right address?`
    return this.#error(shown, 'hold', answer, { reason: 'no_answer' })
  }

  /**
   * The error for a response with results for single events. Each rejected event gets its own message from the
   * response.
   */
  #divided(answer: Answer, asked: RequestPlace, found: Divided, text: string): DeliveryError {
    const { failure, rejected, again, refusals, first } = found
    const shown = ({ message = text, advice }: EventResult) =>
      this.#shown(answer, asked, message) + (advice === undefined ? '' : `; ${advice}`)
    const statusOf = ({ status = answer.statusCode }: EventResult) => status
    const reasonOf = ({ reason, ...entry }: EventResult) => reason ?? reasonFor(statusOf(entry))
    // Many events may share an entry.
    const messages = new Map(Array.from(new Set(refusals), entry => [entry, shown(entry)]))
    return this.#error(shown(first), failure, answer, {
      status: statusOf(first),
      reason: reasonOf(first),
      rejected,
      again,
      messages: refusals.map(entry => messages.get(entry)!),
      reasons: refusals.map(reasonOf),
      statuses: refusals.map(statusOf),
    })
  }

  /** The error of the `validate` request. Delivery pauses, unless the status asks to retry. */
  async heldBy(answer: Answer, asked: RequestPlace): Promise<DeliveryError> {
    const error = await this.refusal(answer, asked)
    if (error.failure === 'retry' || error.failure === 'hold') return error
    return this.#error(`${error.message}; "validate" must be an address that answers HEAD with 200`, 'hold', answer)
  }

  #countable(request: readonly EventBatch[]): number {
    return this.#of.format.countable?.(request) ?? eventsIn(request)
  }

  /**
   * The error for a response that cannot be read. The client then sends smaller requests, which have shorter responses.
   * For a single event, the status decides; after a 2xx, the event is sent again several times.
   */
  #unreadable(answer: Answer, asked: RequestPlace): DeliveryError {
    const { statusCode: status } = answer
    const isDivisible = eventsIn(asked.request!) > 1
    const failure = isDivisible ? 'too_large' : isSuccess(status) ? 'retry' : failureOf(status)
    const how = isDivisible ? 'the events are sent again in smaller requests' : `the status decides: ${failure}`
    const message = `${status} from ${asked.place}: the answer is too long, cut off, compressed, or not valid JSON. It is unknown which events were refused, so ${how}`
    const error = this.#error(message, failure, answer, { reason: 'answer_too_large' })
    return failure === 'retry' && isSuccess(status) ? new RepeatedError(error.message, error) : error
  }

  #shown(
    { statusCode: status, headers }: Answer,
    { place }: RequestPlace,
    text: string,
    advice = this.#advice(status, headers),
  ): string {
    const said = this.#cut(text)
    const proxy = this.#of.transport.answeringProxy(this.#of.format.url)
    const through = proxy === undefined ? '' : ` through the proxy ${proxy}`
    return `${status} from ${place}${through}${said ? `: ${said}` : ''}${advice}`
  }

  #cut(text: string): string {
    return cutText(this.#withoutSecrets(text))
  }

  #advice(status: number, headers: Answer['headers']): string {
    if (status === 401 || status === 403) {
      const isBasic = this.#of.options.auth.type === 'basic'
      const what =
        status === 401
          ? `the ${isBasic ? 'user or the password' : 'access key'} was refused`
          : `the ${isBasic ? 'user' : 'access key'} lacks a permission`
      return this.#of.key ? `; ${what}: put another ${this.#of.key.place}` : '; it wants an access key: set "auth"'
    }
    if (status >= 300 && status < 400) {
      const to = joinedHeader(headers.location)
      const shown = to ? withoutQuery(to) : 'elsewhere'
      return `; it redirects to ${shown}; redirects are not followed: set that address in the configuration`
    }
    if (status === 407) return `; a proxy answered this${proxyWords(status)}`
    if (status === 404) return '; there is nothing at this address'
    if (status === 405) return '; this address is for other requests'
    return ''
  }

  #error(
    message: string,
    failure: Failure,
    { statusCode, headers }: Answer,
    found: Refused & Partial<Pick<DeliveryError, 'status' | 'refused' | 'messages' | 'reasons' | 'statuses'>> = {},
  ): DeliveryError {
    const { status = statusCode, reason = reasonFor(status), rejected, again, groups, ofPartition } = found
    const { refused, messages, reasons, statuses } = found
    return new DeliveryError(this.#withoutSecrets(message), {
      failure,
      reason,
      status,
      causedBy: causeOf(status),
      rejected,
      messages,
      reasons,
      statuses,
      again,
      groups,
      refused,
      ofPartition,
      requestId: joinedHeader(headers['x-request-id']),
      retryAfterMs: retryAfterMs(joinedHeader(headers['retry-after']), this.#of.clock.wall()),
    })
  }

  /** Redacts secrets, since a receiver may echo parts of the request. */
  #withoutSecrets(text: string): string {
    const { options, format } = this.#of
    const inQuery = [format.url, options.validate ?? ''].flatMap(url => {
      const values = parametersOf(url).map(({ from, to }) => url.slice(from, to))
      return [...values, ...values.map(decodedQuery), ...pathKeysOf(url)]
    })
    const inHeaders = Object.values(options.headers).flatMap(value => [value, value.replace(SCHEME, '')])
    const secrets = [...inHeaders, ...inQuery].filter(value => value.length >= SECRET_LENGTH)
    for (const key of this.#of.key?.known ?? []) secrets.push(key, credentialsOf(options.auth, key))
    secrets.push(...this.#of.transport.secrets)
    return hideSecrets(text, secrets)
  }
}

/** `status`: the status of a response or of one event. */
const reasonFor = (status: number) => (isSuccess(status) ? 'rejected' : `status_${status}`)

/** Whether a response may be JSON. Simple receivers send JSON without a content type. */
function mayBeJson(headers: Answer['headers']): boolean {
  const type = joinedHeader(headers['content-type'])
  return !type || /^(application\/([\w.-]+\+)?|text\/)json\b/i.test(type)
}

/** Joins the values of a header to one string. */
export function joinedHeader(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header
}
