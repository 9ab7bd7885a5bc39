import { Ack, type Share } from '../../core/event/ack.js'
import type { EventBatch } from '../../core/event/batch.js'
import { namedPlaces } from '../../core/event/event-id.js'
import { type Decides, DISCARDED, type EmitReason, type Plan, UNROUTED } from '../../core/processor.js'
import type { TimerClock } from '../../lib/time.js'
import type { DispatchContext } from './dispatch.js'
import type { Failures } from './failures.js'
import { lineBatch, madeLine } from './made-batch.js'
import type { SideOutput } from './side-output.js'

export interface EmissionContext extends DispatchContext {
  readonly clock: TimerClock
}

interface Lines {
  readonly lines: string[]
  /** The name of each line; undefined if the line has no name. */
  readonly names: (string | undefined)[]
  readonly shares: Set<Share>
}

/** A batch of emitted events, already counted. `output`: its side output; undefined: the main output. */
export interface EmittedBatch {
  readonly batch: EventBatch
  readonly output: SideOutput | undefined
}

export class Emission {
  readonly #processor: Decides
  /** The side output that replaces the main one. */
  readonly #main: string | undefined
  readonly #context: EmissionContext
  readonly #outputs: ReadonlyMap<string, SideOutput>
  readonly #shares: Set<Share>
  readonly #failures: Failures

  constructor(
    processor: Decides,
    plan: Plan,
    context: EmissionContext,
    outputs: ReadonlyMap<string, SideOutput>,
    shares: Set<Share>,
    failures: Failures,
  ) {
    this.#processor = processor
    this.#main = plan.main
    this.#context = context
    this.#outputs = outputs
    this.#shares = shares
    this.#failures = failures
  }

  /** Collects the due events into one batch for each output. Outputs that are not read get none. */
  emitted(why: EmitReason): EmittedBatch[] {
    const batches: EmittedBatch[] = []
    for (const [to, made] of this.#lines(why)) {
      const output = to === undefined ? undefined : this.#outputs.get(to)
      if (to === DISCARDED && !output?.isRead) {
        // Discarded events do not need a reader. Without a reader, their shares are settled here.
        for (const share of made.shares) share.settle('delivered')
        continue
      }
      if (to !== undefined && !output)
        this.#failures.emission(`it emitted to ${to}, which is not an output of its plan`)
      const batch = this.#batch(made, to, to === undefined || output?.connected === true)
      if (to === undefined || output?.isRead) batches.push({ batch, output })
      else batch.ack.settle('delivered')
    }
    for (const { batch, output } of batches) if (output) output.events += batch.length
    return batches
  }

  #lines(why: EmitReason): Map<string | undefined, Lines> {
    const outputs = new Map<string | undefined, Lines>()
    const unwritten: Share[] = []
    try {
      for (const { fields, to = this.#main, shares = [], name } of this.#processor.emit?.(why) ?? []) {
        try {
          const line = madeLine(fields)
          const made = outputs.get(to) ?? { lines: [], names: [], shares: new Set() }
          outputs.set(to, made)
          made.lines.push(line)
          made.names.push(name)
          for (const share of shares) made.shares.add(share)
        } catch (error) {
          for (const share of shares) unwritten.push(share)
          this.#failures.emission(error)
        }
      }
    } catch (error) {
      this.#failures.emission(error)
    }
    const isWritten = (share: Share) => [...outputs.values()].some(({ shares }) => shares.has(share))
    // Rejects the shares of unwritten lines. If the source read these events again, writing would only fail again.
    for (const share of unwritten) if (!isWritten(share)) share.settle('rejected')
    return outputs
  }

  #batch({ lines, names, shares }: Lines, to: string | undefined, isRouted: boolean): EventBatch {
    const { id, metrics, origin, clock } = this.#context
    for (const share of shares) this.#shares.delete(share)
    const ack = new Ack(
      status => {
        for (const share of shares) share.settle(status)
      },
      undefined,
      // When the first holder settles the batch as `errored`, it is already certain that the sources will send the
      // events again.
      () => {
        for (const share of shares) share.willError()
      },
    )
    const batch = lineBatch(Buffer.from(lines.join('')), origin, clock.wall(), ack)
    if (origin.wanted.areIdsUsed && names.every(name => name !== undefined)) batch.places = namedPlaces(id, names)
    metrics.emitted(batch.length, batch.bytes)
    if (isRouted) metrics.sent(batch.length, batch.bytes, to)
    else metrics.discarded(UNROUTED, batch.length, batch.bytes)
    return batch
  }
}
