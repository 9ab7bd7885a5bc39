import type { Codec } from '../../../core/codec.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import { TEXT_LINES } from '../../../core/codecs/text.js'
import type { Output, SourceContext } from '../../../core/component.js'
import type { AckStatus } from '../../../core/event/ack.js'
import { EventBatch } from '../../../core/event/batch.js'
import type { Origin } from '../../../core/event/origin.js'
import { recordSplitter } from '../../../core/options/multiline-options.js'
import { deferred } from '../../../lib/time.js'
import type { BodyFormat } from './checks.js'
import { type EventPortion, framesOf, PORTION_BYTES, recordsOf } from './frames.js'

export interface BodyBytes {
  readonly bytes: Buffer
  /** Called once, when the bytes are no longer read or written. */
  readonly release?: () => void
}

/** A complete body. Its buffer has room for one more byte after `size`. */
export interface WholeBody extends BodyBytes {
  readonly size: number
  readonly content: BodyFormat
  readonly peer: string | undefined
}

export interface Sending {
  readonly context: SourceContext
  readonly out: Output
  readonly maxLineBytes: number
  /** Decodes lines of text. Default: PLAIN_TEXT. */
  readonly codec?: Codec | undefined
  /** Resolves when the next part of the body, of at most `bytes` bytes, may be processed. */
  readonly turn?: (bytes: number) => Promise<void>
  /** Counts pieces of over-long lines. */
  readonly pieces?: { value: number }
}

/**
 * Emits all events of a body as fast as there is room, and resolves with their number. `settled` resolves with the
 * worst status of the events. Modifies the body, then releases it. If it throws a Refusal, it has emitted no event.
 */
export async function sendBody(
  { bytes, size, content, peer, release }: WholeBody,
  { codec = TEXT_LINES, ...sending }: Sending,
): Promise<{ received: number; settled: Promise<AckStatus> }> {
  const { context, maxLineBytes, turn } = sending
  const base = context.origin(content === 'text' ? codec : JSON_OBJECTS)
  const origin = peer === undefined ? base : { ...base, peer }
  const framing = content === 'text' ? codec.framing : undefined
  try {
    await turn?.(Math.min(size, PORTION_BYTES))
    const portions = framing
      ? recordsOf(bytes.subarray(0, size), framing, recordSplitter(framing, maxLineBytes, context.metrics))
      : framesOf(bytes, size, content, maxLineBytes)
    return await sendPortions(portions, origin, sending)
  } finally {
    // The frames have their own memory.
    release?.()
  }
}

/** Emits all events of the portions. Undefined in place of a portion: only waits for its turn. */
export async function sendPortions(
  portions: Iterable<EventPortion | undefined>,
  origin: Origin,
  { context, out, turn, pieces: counter }: Omit<Sending, 'maxLineBytes' | 'codec'>,
): Promise<{ received: number; settled: Promise<AckStatus> }> {
  const outcome = new Outcome()
  let received = 0
  for (const portion of portions) {
    if (received > 0 || !portion) await turn?.(PORTION_BYTES)
    if (!portion) continue
    const { frame, pieces } = portion
    received += frame.length
    if (counter) counter.value += pieces
    await out.send(new EventBatch(frame, origin, context.clock.wall(), out.ack(outcome.part())))
  }
  return { received, settled: outcome.whole() }
}

const RANK: Record<AckStatus, number> = { delivered: 0, rejected: 1, errored: 2 }

/** Determines the worst status of a request's parts. The status is known when all parts are settled. */
class Outcome {
  #open = 1
  #worst: AckStatus = 'delivered'
  readonly #settled = deferred()

  /** Adds a part. The returned function settles it. */
  part(): (status: AckStatus) => void {
    this.#open++
    return status => this.#settle(status)
  }

  /** Resolves with the worst status once all parts are settled. Call it once, after the last part. */
  async whole(): Promise<AckStatus> {
    this.#settle('delivered')
    await this.#settled.promise
    return this.#worst
  }

  #settle(status: AckStatus): void {
    if (RANK[status] > RANK[this.#worst]) this.#worst = status
    if (--this.#open === 0) this.#settled.resolve()
  }
}
