import type { IncomingMessage } from 'node:http'
import type { Principal } from '../domain/keys/principal.js'

/** What became of a request with events. */
export interface IngestAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; undefined: no body. */
  readonly body?: unknown
}

/**
 * Takes the events of requests and runs them through published pipelines. It is called after authentication, before
 * any byte of the body was read, for POST requests only. It checks the scope and the visibility of the pipeline itself.
 */
export interface Ingest {
  /**
   * Reads the body of `request` (its headers have the content type, encoding and idempotency-key) and answers once the
   * events are safe. Throws ApiError or Refusal for what it refuses, Gone when the client went away; what is left of the body then is read past by the caller.
   */
  ingest(principal: Principal, pipelineId: string, request: IncomingMessage): Promise<IngestAnswer>
}
