import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { defineSource, type Output, type SourceContext } from '../core/component.js'
import type { AckStatus } from '../core/event/ack.js'
import type { Content } from '../http/events/checks.js'
import { type Body, sendBody } from '../http/events/send-body.js'
import { readBody } from '../http/server/body.js'
import type { Lease } from '../http/server/quota.js'
import { type Refusal, stopping } from '../http/server/refusal.js'
import { aborted } from '../lib/time.js'

const MAX_LINE_BYTES = 1024 * 1024

export interface Reading {
  readonly content: Content
  readonly gzip: boolean
  readonly maxBytes: number
  readonly lease: Lease
  readonly peer: string | undefined
}

/** What no two bodies have in common: whoever knows a key of somebody else must not be able to make a body that passes for theirs. */
export function digestOf({ bytes, size, content }: Body, ...of: readonly string[]): string {
  const head = JSON.stringify([...of, content])
  return createHash('sha256').update(`${head}\n`).update(bytes.subarray(0, size)).digest('base64url')
}

/** The source `ingest` of one pipeline, and the way into it. */
export class Feed {
  readonly definition = defineSource({
    type: 'ingest',
    summary: 'Events that are sent to the pipeline.',
    options: z.strictObject({}),
    examples: [{ title: 'As it is', yaml: '' }],
    // Who sent them could send them again, but need not hear of a publish.
    create: (_options, context) => ({
      once: true,
      answers: true,
      run: (out, signal) => this.#run(context, out, signal),
    }),
  })
  readonly #turn: (bytes: number) => Promise<void>
  #open: { context: SourceContext; out: Output } | undefined
  readonly #reading = new Set<(refusal: Refusal) => void>()
  readonly #sending = new Set<Promise<unknown>>()

  /** `turn` resolves when the next part of a body may be processed. */
  constructor(turn: (bytes: number) => Promise<void> = async () => {}) {
    this.#turn = turn
  }

  async #run(context: SourceContext, out: Output, signal: AbortSignal): Promise<void> {
    this.#open = { context, out }
    await aborted(signal)
    this.#open = undefined
    for (const refuse of this.#reading) refuse(stopping())
    // What was read whole is passed on.
    while (this.#sending.size > 0) await Promise.allSettled(this.#sending)
  }

  async read(request: IncomingMessage, reading: Reading): Promise<Body> {
    const { content, peer } = reading
    let refuse: ((refusal: Refusal) => void) | undefined
    const onBegin = (fail: (refusal: Refusal) => void) => {
      refuse = fail
      if (this.#open) this.#reading.add(fail)
      else fail(stopping())
    }
    try {
      const { bytes, size } = await readBody(request, { ...reading, onBegin })
      return { bytes, size, content, peer }
    } finally {
      if (refuse) this.#reading.delete(refuse)
    }
  }

  /** Passes on all events of a body; resolves with how many, and what became of them. Where it throws a Refusal it took nothing. */
  send(body: Body): Promise<{ received: number; settled: Promise<AckStatus> }> {
    const sending = this.#send(body)
    this.#sending.add(sending)
    sending.finally(() => this.#sending.delete(sending)).catch(() => {})
    return sending
  }

  async #send(body: Body): Promise<{ received: number; settled: Promise<AckStatus> }> {
    if (!this.#open) throw stopping()
    return await sendBody(body, { ...this.#open, maxLineBytes: MAX_LINE_BYTES, turn: this.#turn })
  }
}
