import type { ProcessorOutage } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { BatchScope, Decides } from '../../core/processor.js'
import { holdChunk } from '../../lib/lines/chunk-pool.js'
import type { TimerClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'

/** Calls that may go on after their deadline. Each of them keeps the memory of its batch. */
const MOST_LATE = 16

/** A call of `process` did not end in time, or was not made since others have not ended. */
export class LateError extends Error {}

/** Calls a processor, and waits for it no longer than the deadline of its plan. What it does afterwards is ignored. */
export class Calls implements Decides {
  readonly #processor: Decides
  readonly #deadlineMs: number | undefined
  readonly #clock: TimerClock
  #late = 0
  /** When the last call became late, in milliseconds since 1970. */
  #lateAt = 0

  constructor(processor: Decides, deadlineMs: number | undefined, clock: TimerClock) {
    this.#processor = processor
    this.#deadlineMs = deadlineMs
    this.#clock = clock
  }

  /** Rejects with LateError after the deadline. */
  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void | Promise<void> {
    const ms = this.#deadlineMs
    if (ms === undefined) return this.#processor.process(batch, to, scope)
    if (this.#late >= MOST_LATE)
      return Promise.reject(new LateError(`it was not processed, since ${MOST_LATE} earlier calls have not ended`))
    const waits = this.#processor.process(batch, to, scope)
    return waits && this.#within(ms, waits, batch)
  }

  /** Why no calls are made, for those who look at the daemon; undefined: they are. */
  get outage(): ProcessorOutage | undefined {
    if (this.#late < MOST_LATE) return undefined
    return {
      isStuck: true,
      reason: `${MOST_LATE} calls have not ended`,
      since: new Date(this.#lateAt).toISOString(),
      attempts: MOST_LATE,
      meanwhile: 'no others are made, and its events follow on_error',
    }
  }

  #within(ms: number, waits: Promise<void>, { chunk }: EventBatch): Promise<void> {
    return new Promise((resolve, reject) => {
      let ended = () => {}
      const cancel = this.#clock.after(ms, () => {
        // It may still read the bytes.
        const release = holdChunk(chunk)
        this.#late++
        this.#lateAt = this.#clock.wall()
        ended = () => {
          release?.()
          this.#late--
        }
        reject(new LateError(`it was not processed within ${formatDuration(ms)}`))
      })
      waits.then(resolve, reject).finally(() => {
        cancel()
        ended()
      })
    })
  }
}
