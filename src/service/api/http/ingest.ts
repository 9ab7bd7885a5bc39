import type { IncomingMessage } from 'node:http'
import type { Principal } from '../domain/keys/principal.js'

/** The response to a request with events. */
export interface IngestAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; undefined: no body. */
  readonly body?: unknown
}

/**
 * Looks at the key of a request again: reading its body may take long, and the key may end meanwhile. Undefined: it is
 * as it was. Throws or rejects with ApiError.
 */
export type Confirm = () => Promise<void> | undefined

/**
 * Accepts the events of requests and runs them through published pipelines. It is called after authentication, for POST
 * requests only, before the body is read. It checks the scope and the visibility of the pipeline itself.
 */
export interface Ingest {
  /**
   * Reads the body of `request` (whose headers have the content type, encoding and idempotency-key), calls `confirm`
   * before it accepts anything, and resolves once the events are stored durably. Throws ApiError or Refusal if it refuses
   * the request, and Gone if the client has disconnected; the caller discards the rest of the body.
   */
  ingest(principal: Principal, pipelineId: string, request: IncomingMessage, confirm: Confirm): Promise<IngestAnswer>
}
