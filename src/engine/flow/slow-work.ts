import type { Logger } from 'pino'
import type { Processor, ProcessorOutage } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import type { TimerClock } from '../../lib/time.js'

/** A processor that holds a batch for longer than this is stuck, not just waiting. */
export const LONGEST_WORK_MS = 60_000

interface Work {
  readonly batch: EventBatch
  readonly since: number
  readonly cancel: () => void
}

/** Notices and logs that a processor does not finish with a batch. Its events wait; nothing interrupts it. */
export class SlowWork {
  readonly #processor: Pick<Processor, 'isWaiting'>
  readonly #clock: TimerClock
  readonly #log: Logger
  /** What the processor works on, the oldest first. */
  readonly #all = new Set<Work>()

  constructor(processor: Pick<Processor, 'isWaiting'>, { clock, log }: { clock: TimerClock; log: Logger }) {
    this.#processor = processor
    this.#clock = clock
    this.#log = log
  }

  /** Call the result when the processor has finished with the batch, or is not waited for any more. */
  begin(batch: EventBatch): () => void {
    const { length: events, origin } = batch
    const about = {
      code: 'SLUICE_PROCESSOR_STUCK',
      source: origin.source,
      file: origin.path,
      peer: origin.peer,
      events,
    }
    let isLogged = false
    const cancel = this.#clock.after(LONGEST_WORK_MS, () => {
      if (this.#processor.isWaiting) return
      isLogged = true
      this.#log.warn(about, 'processor has not finished with a batch for a minute; its events wait')
    })
    const work = { batch, since: this.#clock.now(), cancel }
    this.#all.add(work)
    return () => {
      cancel()
      this.#all.delete(work)
      if (isLogged) this.#log.info(about, 'processor has finished with the batch')
    }
  }

  /** Nobody waits any more. */
  stop(): void {
    for (const { cancel } of this.#all) cancel()
    this.#all.clear()
  }

  /** For how long it has worked on the oldest batch, 0 while it waits for good reason; undefined: it has none. */
  get workedMs(): number | undefined {
    const [first] = this.#all
    return first && (this.#processor.isWaiting ? 0 : this.#clock.now() - first.since)
  }

  /** What does not end, for those who look at the daemon; undefined: all goes well. */
  get outage(): ProcessorOutage | undefined {
    const [first] = this.#all
    const { workedMs = 0 } = this
    if (!first || workedMs <= LONGEST_WORK_MS) return undefined
    return {
      isStuck: true,
      reason: `it has not finished with ${first.batch.length} events of ${first.batch.origin.source}`,
      since: new Date(this.#clock.wall() - workedMs).toISOString(),
      attempts: 1,
      meanwhile: 'these events wait, and what comes behind them; nothing is lost',
    }
  }
}
