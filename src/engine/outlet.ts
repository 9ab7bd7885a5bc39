import { Ack, type AckStatus } from '../core/ack.js'
import type { EventBatch } from '../core/batch.js'
import type { Outlet } from '../core/component.js'
import type { ComponentCounters } from './counters.js'
import type { Junction } from './junction.js'

/**
 * Where a source puts its batches. Bounds the memory of everything behind it: what is sent and not settled yet may
 * hold at most `maxBytes`, plus one batch.
 */
export class SourceOutlet implements Outlet {
  readonly #junction: Junction
  readonly #counters: ComponentCounters
  readonly #maxBytes: number
  #held = 0
  #unsettled = 0
  #waiting: (() => void)[] = []
  readonly #notJson: { value: number }
  readonly #notSyslog: { value: number }

  constructor(junction: Junction, counters: ComponentCounters, maxBytes: number) {
    this.#junction = junction
    this.#counters = counters
    this.#maxBytes = maxBytes
    this.#notJson = counters.counter(
      'sluice_not_json_lines_total',
      'Lines that are not a JSON object though the source decodes JSON. They are kept as text.',
    )
    this.#notSyslog = counters.counter(
      'sluice_not_syslog_lines_total',
      'Lines that are not syslog though the source decodes it. They are kept as text.',
    )
    counters.gauge('sluice_source_unacknowledged_bytes', 'Memory held by what is not settled yet.', () => this.#held)
  }

  /** Batches that are not settled yet. */
  get unsettled(): number {
    return this.#unsettled
  }

  ack(onSettled: (status: AckStatus) => void): Ack {
    this.#unsettled++
    const ack: Ack = new Ack(
      status => {
        this.#unsettled--
        this.#release(ack.held)
        onSettled(status)
      },
      bytes => this.#release(bytes),
    )
    return ack
  }

  #release(bytes: number): void {
    this.#held -= bytes
    if (this.#waiting.length === 0 || this.#held >= this.#maxBytes) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const go of waiting) go()
  }

  async send(batch: EventBatch): Promise<void> {
    const { length, bytes } = batch
    const counters = this.#counters
    counters.received.events += length
    counters.received.bytes += bytes
    const strange = batch.scan()
    if (strange > 0) (batch.origin.decode === 'json' ? this.#notJson : this.#notSyslog).value += strange
    batch.ack.held = batch.held
    this.#held += batch.ack.held
    counters.sent(length, bytes)
    const room = this.#junction.write(batch)
    if (room) await room
    while (this.#held >= this.#maxBytes) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** Lets go of everybody who waits for the budget: the run is over. */
  close(): void {
    const waiting = this.#waiting
    this.#waiting = []
    this.#held = Number.NEGATIVE_INFINITY
    for (const go of waiting) go()
  }
}
