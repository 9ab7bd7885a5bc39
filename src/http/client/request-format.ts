import type { Encoded } from '../../codecs/encode.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { Entry } from './answers/divided.js'

/**
 * What a type of HTTP destination adds to the client: where requests go, what they hold, and how answers are read.
 *
 * The client does the rest. A status decides what becomes of a request: 2xx is delivered; 401, 403, 407 and redirects hold;
 * 408, 425, 429, 5xx and errors of the network are tried again, after Retry-After where there is one; 413 is sent in halves;
 * every other 4xx is rejected.
 */
export interface RequestFormat {
  /** The address of requests with events. */
  readonly url: string
  /** POST where it is left out. */
  readonly method?: 'POST' | 'PUT'
  readonly contentType: string
  /** Further headers of every request, by name in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * The body of a request: called once for each request, and each attempt sends the same. It runs to its end without waiting,
   * so the parts may be slices of the chunks of the batches; the client copies them.
   */
  encode(request: readonly EventBatch[]): Encoded
  /** How answers tell events apart; left out: the status counts for all of them. */
  readonly answerList?: AnswerList
  /** How many events of a request an answer can tell apart; 0: none of them. Left out: all of them. */
  countable?(request: readonly EventBatch[]): number
}

/** A list in a JSON object that tells events apart. With a 2xx all that it does not name was taken; with a 4xx nothing was. */
export interface AnswerList {
  /** The name of the list. */
  readonly name: string
  /**
   * The entry at `position` of the list: the index of an event in its request from 0, with its status where it has one of its
   * own (below 300: it was taken). Undefined: the answer is of another form, and its status counts for all events.
   */
  entry(value: unknown, position: number): Entry | undefined
}
