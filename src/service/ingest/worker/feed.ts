import { z } from 'zod'
import { type AnyDefinition, defineSource, type Output, type SourceContext } from '../../../core/component.js'
import type { AckStatus } from '../../../core/event/ack.js'
import type { ComponentConfig } from '../../../engine/config/load.js'
import { aborted, nextTurn } from '../../../lib/time.js'
import { sendBody, type WholeBody } from '../../../net/http/events/send-body.js'
import { stopping } from '../../../net/http/server/refusal.js'

const MAX_LINE_BYTES = 1024 * 1024

/** Id of the source that every published pipeline has. The source emits the events that are sent to the service. */
export const INGEST = 'ingest'

/** The component `ingest` with this definition, for `parseDocument`. */
export function ingestSource(definition: AnyDefinition<'source'>): ComponentConfig<'source'> {
  return { id: INGEST, kind: 'source', type: definition.type, inputs: [], options: {}, definition }
}

/** The source `ingest` of one pipeline. `send` passes events to it. */
export class Feed {
  readonly definition = defineSource({
    type: INGEST,
    summary: 'Events that are sent to the pipeline.',
    options: z.strictObject({}),
    examples: [{ title: 'As it is', yaml: '' }],
    // With `once`, the engine resends undelivered events after a publish. Clients do not notice that.
    create: (_options, context) => ({
      once: true,
      answers: true,
      run: (out, signal) => this.#run(context, out, signal),
    }),
  })
  #open: { context: SourceContext; out: Output } | undefined
  readonly #sending = new Set<Promise<unknown>>()

  async #run(context: SourceContext, out: Output, signal: AbortSignal): Promise<void> {
    this.#open = { context, out }
    await aborted(signal)
    this.#open = undefined
    // Waits for the bodies that are being sent.
    while (this.#sending.size > 0) await Promise.allSettled(this.#sending)
  }

  /**
   * Passes on all events of a body. Resolves with the number and the status of the events. If it throws a Refusal, no
   * event was passed on.
   */
  send(body: WholeBody): Promise<{ received: number; settled: Promise<AckStatus> }> {
    const sending = this.#send(body)
    this.#sending.add(sending)
    sending.finally(() => this.#sending.delete(sending)).catch(() => {})
    return sending
  }

  async #send(body: WholeBody): Promise<{ received: number; settled: Promise<AckStatus> }> {
    if (!this.#open) throw stopping()
    // Between two portions of a body, other requests of the account and calls of the service have their turn.
    return await sendBody(body, { ...this.#open, maxLineBytes: MAX_LINE_BYTES, turn: () => nextTurn() })
  }
}
