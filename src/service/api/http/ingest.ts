import type { IncomingMessage } from 'node:http'
import type { Principal } from '../domain/keys/principal.js'

/**
 * Checks the key of a request again, because the key may have ended while the body was read. Returns undefined if the
 * check did not have to read the store. Throws or rejects with ApiError.
 */
export type Confirm = () => Promise<void> | undefined

/**
 * Accepts the events of requests and runs them through published pipelines. `ingest` is called after authentication,
 * for POST requests only, before the body is read. It also checks the scope and the visibility of the pipeline.
 */
export interface Ingest {
  /**
   * Reads the body of `request`, and calls `confirm` before it accepts any event. Resolves with the body of the
   * response when the events are stored durably. Throws ApiError or Refusal if it refuses the request, and Gone if the
   * client has disconnected. The caller discards the rest of the body.
   */
  ingest(principal: Principal, pipelineId: string, request: IncomingMessage, confirm: Confirm): Promise<unknown>
}
