import type { Encoded } from '../../../core/codecs/encode.js'
import type { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Template } from '../../../core/template.js'
import type { Entry } from './answers/divided.js'

/**
 * The parts that a type of HTTP destination adds to the client: URL, content and the interpretation of responses.
 *
 * The client does the rest. The status decides: 2xx means delivered; 401, 403, 407 and redirects pause delivery; 408,
 * 425, 429, 5xx and network errors are retried, after Retry-After if given; a request with 413 is sent in halves; any
 * other 4xx means rejected.
 */
export interface RequestFormat {
  /** The URL of requests with events: a template, whose fields make the events of a request a partition. */
  readonly url: string
  /** Default: POST. */
  readonly method?: 'POST' | 'PUT'
  readonly contentType: string
  /** Default: 6. With 1, it takes less than half the time for a body that is some percent larger. */
  readonly gzipLevel?: number
  /** Additional headers of every request. Those that are templates divide events as `url` does. */
  readonly headers?: Readonly<Record<string, string | Template>>
  /** Texts that the body has once for all events, such as labels. They divide events as `url` does. */
  readonly texts?: Readonly<Record<string, Template>>
  /** A name that all events of a request share, besides its texts; it has no line end. */
  partOf?(batch: EventBatch, i: number): string
  /** As in Destination. */
  readonly mostPartitions?: number
  /**
   * The only status with which the receiver accepts events. Any other 2xx comes from elsewhere, such as a proxy, and
   * delivers nothing. If missing, every 2xx means delivered.
   */
  readonly takenStatus?: number
  /**
   * Encodes the body. Called once for each request; all attempts send the same bytes. The parts may be slices of the
   * chunks of the batches; the client keeps these until the last attempt is over. `texts`: the values of `texts` for
   * these events.
   */
  encode(request: readonly EventBatch[], texts: Readonly<Record<string, string>>): Encoded
  /** The body for people, as JSON, if `encode` writes another format. */
  json?(request: readonly EventBatch[]): Encoded
  /** A body without events, which checks a key, and the response that it gets. */
  readonly emptyRequest?: { readonly body: string; readonly status: number; readonly says: RegExp }
  /**
   * Asks the receiver about itself, before events are sent and for `sluice validate --online`. `get` resolves with the
   * JSON at a URL, or undefined without a usable response.
   */
  inspect?(get: (url: string) => Promise<unknown>): Promise<Inspection>
  /** How responses distinguish events. If missing, the status counts for all of them. */
  readonly answerList?: AnswerList
  /**
   * Reads a success response of a receiver that does not report which events it rejects. Undefined: the response has
   * another form and delivers nothing.
   */
  success?(content: Buffer, contentType: string): PartlyRefused | undefined
  /** Extracts the text of an error response that is not plain text. */
  words?(content: Buffer, contentType: string): Buffer
  /** Interprets an error text of the receiver. Undefined: the status decides. */
  refusal?(status: number, text: string, request: readonly EventBatch[]): Refused | undefined
  /** How many events of a request a response can distinguish; 0: none. If missing, all of them. */
  countable?(request: readonly EventBatch[]): number
}

/** How many events of a request were rejected, and why. */
export interface PartlyRefused {
  readonly refused: number
  readonly message: string
}

/** A receiver's description of itself. */
export interface Inspection {
  /** As `OpenSearch 2.19.3`. */
  readonly server?: string
  /** What an operator should know before events arrive. */
  readonly note?: string
  /** Why the configuration does not fit the receiver. */
  readonly problem?: string
}

/** The meaning of an error response. The status decides on missing properties. */
export interface Refused
  extends Partial<Pick<DeliveryError, 'failure' | 'reason' | 'rejected' | 'again' | 'groups' | 'ofPartition'>> {
  readonly advice?: string | undefined
}

/** A JSON list that distinguishes events. Events that are not listed were accepted with a 2xx, and not with a 4xx. */
export interface AnswerList {
  readonly name: string
  /** Set if a 2xx lists every event. Any other 2xx comes from elsewhere, such as a proxy, and delivers nothing. */
  readonly isWhole?: true
  /**
   * Reads the entry at `position` of the list: the index of an event in its request, from 0, and its own status if it
   * has one (below 300: accepted). Undefined if the response has another form; then its status counts for all events.
   */
  entry(value: unknown, position: number): Entry | undefined
}
