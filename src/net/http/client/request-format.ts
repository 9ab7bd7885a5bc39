import type { Encoded } from '../../../core/codecs/encode.js'
import type { Layout } from '../../../core/codecs/layout.js'
import type { DeliveryError } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Template } from '../../../core/template.js'
import type { EventResult } from './answers/divided.js'

/**
 * What a type of HTTP destination adds to the client: URL, content and the interpretation of responses.
 *
 * The client does the rest. A 2xx means delivered; 401, 403, 407 and redirects pause delivery; 408, 425, 429, 5xx and
 * network errors are retried, after Retry-After if given; a request with 413 is sent in halves; any other 4xx means
 * rejected.
 */
export interface RequestFormat {
  /** URL template of requests with events. All events of a request have the same values in the template's fields. */
  readonly url: string
  /** Default: POST. */
  readonly method?: 'POST' | 'PUT'
  readonly contentType: string
  /** Default: 6. Level 1 takes less than half the time, for a body that is some percent larger. */
  readonly gzipLevel?: number
  /**
   * Additional headers of every request. Events share a request only if they have the same values in these templates.
   */
  readonly headers?: Readonly<Record<string, string | Template>>
  /** Texts that the body contains once, such as labels. Each has the same value for all events of a request. */
  readonly texts?: Readonly<Record<string, Template>>
  /** Returns a name for event `i`, without line ends. Only events with the same name share a request. */
  partOf?(batch: EventBatch, i: number): string
  /** Whether `partOf` returns the same name for all events. */
  readonly isOnePart?: boolean
  /** Like `targetOf` of Destination. */
  targetOf?(batch: EventBatch, i: number): string
  /** Like `mostPartitions` of Destination. */
  readonly mostPartitions?: number
  /**
   * The only status with which the receiver accepts events. Any other 2xx comes from elsewhere, perhaps from a proxy,
   * and delivers nothing. If this is missing, every 2xx means that the events are delivered.
   */
  readonly takenStatus?: number
  /**
   * Encodes the body, once for each request, because all attempts send the same bytes. The parts may be slices of the
   * batches' chunks, which the client holds until the last attempt has ended. `texts`: the member `texts`, filled with
   * the values of these events. Without this method, the body consists of `records`.
   */
  encode?(request: readonly EventBatch[], texts: Readonly<Record<string, string>>): Encoded
  /** The records of the body: what is the same for all events, and what is a column. */
  readonly records?: Layout
  /** The body as JSON, for people, if `encode` writes another format. */
  json?(request: readonly EventBatch[]): Encoded
  /** For checking a key: a body without events, and the status and text of the expected response. */
  readonly emptyRequest?: { readonly body: string; readonly status: number; readonly says: RegExp }
  /**
   * Asks the receiver about itself, before events are sent and for `sluice validate --online`. `get` resolves with the
   * JSON at a URL, or with undefined if the response is unusable.
   */
  inspect?(get: (url: string) => Promise<unknown>): Promise<Inspection>
  /** The list in a response that has results for single events. Without it, the status applies to all events. */
  readonly answerList?: AnswerList
  /**
   * Reads a success response that does not say which events it rejects. Returns undefined if the response has another
   * form and therefore delivers nothing.
   */
  success?(content: Buffer, contentType: string): PartlyRefused | undefined
  /** Extracts the text of an error response whose body is not plain text. */
  words?(content: Buffer, contentType: string): Buffer
  /** Interprets an error text of the receiver. Undefined: the status decides. */
  refusal?(status: number, text: string, request: readonly EventBatch[]): Refused | undefined
  /** Returns how many events of a request a response can list. Default: all. */
  countable?(request: readonly EventBatch[]): number
}

/** How many events of a request were rejected, and why. */
export interface PartlyRefused {
  readonly refused: number
  readonly message: string
}

/** A receiver's description of itself. */
export interface Inspection {
  /** Name and version, as in `OpenSearch 2.19.3`. */
  readonly server?: string
  /** A hint for the operator, shown before events arrive. */
  readonly note?: string
  /** Why the configuration does not suit the receiver. */
  readonly problem?: string
}

/** What an error response means. If a property is unset, the status decides. */
export interface Refused
  extends Partial<Pick<DeliveryError, 'failure' | 'reason' | 'rejected' | 'again' | 'groups' | 'ofPartition'>> {
  readonly advice?: string | undefined
}

/**
 * A list of events in a JSON response. If the response has a 2xx status, the receiver has accepted the events that are
 * not listed. With a 4xx status, the receiver has not accepted them.
 */
export interface AnswerList {
  readonly name: string
  /** Whether the receiver lists every event in a 2xx. Any other 2xx is from elsewhere, and delivers nothing. */
  readonly isWhole?: true
  /**
   * Reads the entry at `position` of the list. It has the event's index in its request, from 0, and perhaps the event's
   * status, which is below 300 if the event was accepted. If the response has another form, returns undefined, and the
   * status of the response applies to all events.
   */
  entry(value: unknown, position: number): EventResult | undefined
  /** Whether an entry accepts its event and says nothing else. If all entries are equal, they need not be read. */
  isTaken?(value: unknown): boolean
}
