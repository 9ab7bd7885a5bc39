/** Why a request is refused, as shown in the response. */
export class Refusal extends Error {
  readonly status: number
  /** A stable name, for programs. */
  readonly code: string
  readonly headers: Readonly<Record<string, string>>
  /** Whether the connection must be closed, since no further request can be read from it. */
  readonly close: boolean

  constructor(
    status: number,
    code: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    close = false,
  ) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
    this.close = close
  }
}

/** A refusal that its source has logged. */
export class LoggedRefusal extends Refusal {}

/** The client disconnected before the request was complete. */
export class Gone extends Error {}

/** The sender may repeat the request soon. A load balancer may then pass it to another node. */
export const stopping = () =>
  new Refusal(503, 'stopping', 'the source or pipeline is ending; send this again', { 'retry-after': '1' }, true)

export const overloaded = () =>
  new Refusal(503, 'overloaded', 'too many events are waiting to be delivered; send this again', { 'retry-after': '1' })

export const notDelivered = () =>
  new Refusal(503, 'not_delivered', 'the events could not be delivered; send this again', { 'retry-after': '5' })

export const tooLarge = (maxBytes: number) =>
  new Refusal(413, 'too_large', `the body is larger than ${maxBytes} bytes; send it in parts`)

export const tinyParts = (leastBytes: number) =>
  new Refusal(
    400,
    'tiny_parts',
    `the body comes in parts of less than ${leastBytes} bytes; send larger chunks`,
    {},
    true,
  )

export const notReadable = (status: number) =>
  status === 408
    ? new Refusal(408, 'too_slow', 'the body did not arrive in time', {}, true)
    : new Refusal(status, 'malformed', 'the body is not valid HTTP', {}, true)
