import type { ComponentMetrics } from '../../core/component.js'
import type { EventBatch } from '../../core/event/batch.js'
import { type EditedField, EventEditor } from '../../core/event/event-editor.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import type { Origin } from '../../core/event/origin.js'
import {
  CONSUMED,
  DISCARDED,
  FAILED,
  FIRST_REASON,
  LATER,
  MAIN,
  type OnError,
  type Plan,
  UNROUTED,
} from '../../core/processor.js'
import { LINE_END } from '../../lib/lines/line-splitter.js'
import type { FateObserver } from './fates.js'
import { lineBatch, nameAfter } from './made-batch.js'
import type { Replacements } from './replacements.js'
import type { SideOutput } from './side-output.js'
import type { Work } from './work.js'

export const PROCESSING_FAILED = 'processing_failed'

/** If an event could not be processed, this field of the event contains the error. */
const ERROR_FIELD = parseFieldPath('.processing_error')

/** MAIN decisions, for comparing blocks of this size at once. */
const ALL_MAIN = Buffer.alloc(4096, MAIN)

export type StageMetrics = Pick<
  ComponentMetrics,
  'took' | 'sent' | 'discarded' | 'describeLoss' | 'consumed' | 'emitted' | 'failed' | 'counter' | 'fact' | 'gauge'
>

export interface DispatchContext {
  readonly id: string
  readonly metrics: StageMetrics
  readonly origin: Origin
  readonly onError: OnError
  /** Whether the source with this id cannot read events again. Default: false. */
  readonly isOnce?: (source: string) => boolean
}

/** Passes a batch to the readers of an output. Without `output`, this is the main output. */
export type PassOn = (batch: EventBatch, output?: SideOutput) => void

/** Carries out the decisions about a batch: counts its events and passes them on. */
export class Dispatch {
  readonly #outputs: ReadonlyMap<string, SideOutput>
  readonly #context: DispatchContext
  readonly #own: readonly SideOutput[]
  /** The side output that replaces the main one; `#mainName`: its name. */
  readonly #main: SideOutput | undefined
  readonly #mainName: string
  readonly #names: readonly string[]
  readonly #reasons: readonly string[]
  readonly #failedReason: number
  readonly #passOn: PassOn
  readonly #editor: EventEditor
  readonly #errorField: EditedField
  /** Receives the events that are not passed on. */
  observer: FateObserver | undefined
  /** Origins of replacement events, by the source of the replaced events. */
  readonly #origins = new Map<string, Origin>()
  /** 1 for each decision that the plan allows, except FAILED. */
  readonly #possible = new Uint8Array(256)
  /** Events and bytes of the current batch, by decision. */
  readonly #events = new Float64Array(256)
  readonly #bytes = new Float64Array(256)

  constructor(plan: Plan, context: DispatchContext, outputs: ReadonlyMap<string, SideOutput>, passOn: PassOn) {
    const { outputs: names = [], main = '', reasons = [] } = plan
    this.#context = context
    this.#names = names
    this.#outputs = outputs
    this.#own = names.map(name => outputs.get(name)!)
    this.#main = outputs.get(main)
    this.#mainName = main
    this.#reasons = [...reasons, PROCESSING_FAILED]
    this.#failedReason = FIRST_REASON + reasons.length
    this.#passOn = passOn
    this.#editor = new EventEditor(context.origin.wanted)
    this.#errorField = this.#editor.field(ERROR_FIELD, false)
    context.metrics.describeLoss(
      UNROUTED,
      'They are lost: no component reads the output that they went to. `sluice validate` names it. If this is intended, let a blackhole read it.',
    )
    context.metrics.describeLoss(
      PROCESSING_FAILED,
      'They are lost: they could not be processed, and on_error is discard. The log says why.',
    )
    this.#possible.fill(1, MAIN, 1 + names.length)
    this.#possible.fill(1, FIRST_REASON, FIRST_REASON + reasons.length)
    this.#possible[CONSUMED] = 1
    this.#possible[LATER] = plan.waits ? 1 : 0
  }

  /** The number of failed events. A decision that the plan does not allow counts as a failure. */
  failures(work: Work): number {
    const { batch, to } = work
    const { length } = batch
    if (isAllMain(to, length)) return 0
    const possible = this.#possible
    let failures = 0
    for (let i = 0; i < length; i++) {
      if (possible[to[i]!] === 1) continue
      failures++
      work.replaced?.delete(i)
      work.dropCopies(i)
      if (to[i] === FAILED) continue
      work.hasBug = true
      work.because(i, `the processor decided ${to[i]}, but does not have this output or reason`)
      to[i] = FAILED
    }
    return failures
  }

  needsLetters(work: Work): boolean {
    return this.#context.onError === 'dead_letter' && this.failures(work) > 0
  }

  /** Sends events as decided, but `work.kept` keeps those with LATER. Returns the events for the dead-letter queue. */
  send(work: Work, failures: number): EventBatch | undefined {
    const { batch, to } = work
    const { length } = batch
    if (!work.replaced && !work.copies && isAllMain(to, length)) {
      if (length === 0) batch.ack.settle('delivered')
      else this.#pass(batch)
      return undefined
    }
    const letters = failures > 0 ? this.#failed(work) : undefined
    if (work.replaced) this.#inPieces(work, work.replaced)
    else this.#divide(batch, to, work)
    return letters
  }

  /** Sends a batch to the main output or, if a side output replaces the main output, to that side output. */
  #pass(batch: EventBatch): void {
    batch.compact()
    const side = this.#main
    if (side) {
      if (!side.connected) this.observer?.discarded({ batch, reason: UNROUTED, events: batch.length })
      this.#countSide(side, this.#mainName, batch.length, batch.bytes)
      if (!this.#aside(batch, side, batch.length, () => true)) batch.ack.settle('delivered')
      return
    }
    this.#context.metrics.sent(batch.length, batch.bytes)
    this.#passOn(batch)
  }

  /** Counts events for a planned side output. If no component reads it, they count as discarded, even with a tap. */
  #countSide({ connected }: SideOutput, name: string, events: number, bytes: number): void {
    if (connected) this.#context.metrics.sent(events, bytes, name)
    else this.#context.metrics.discarded(UNROUTED, events, bytes)
  }

  /** Applies `onError` to failed events. */
  #failed({ batch, to, errors, letterErrors, hasBug }: Work): EventBatch | undefined {
    const { id, metrics, onError } = this.#context
    const letters = onError === 'dead_letter' ? batch.pick(i => to[i] === FAILED) : undefined
    for (let i = 0; i < batch.length; i++) {
      if (to[i] !== FAILED) continue
      metrics.failed(hasBug ? 'bug' : 'processing')
      const message = errors?.get(i) ?? 'the event could not be processed'
      if (onError === 'pass') {
        to[i] = MAIN
        this.#editor.open(batch, i)
        this.#editor.set(this.#errorField, { component: id, message })
        this.#editor.close()
      } else if (onError === 'discard') to[i] = this.#failedReason
      else letterErrors.push(message)
    }
    return letters
  }

  /** If a batch has replaced events, sends it in pieces that keep the order of the events. */
  #inPieces(work: Work, replaced: Replacements): void {
    const { batch, to } = work
    const { metrics } = this.#context
    const origin = this.#originOf(batch.origin.source)
    for (let from = 0; from < batch.length; ) {
      let end = from
      if (!replaced.has(from)) {
        while (end < batch.length && !replaced.has(end)) end++
        this.#divide(batch.fork(from, end), to.subarray(from, end), work, from)
      } else {
        let bytes = 0
        for (; end < batch.length && replaced.has(end); end++) bytes += batch.size(end)
        const made = replaced.lines(from, end)
        metrics.consumed(end - from, bytes)
        if (made.length > 0) {
          batch.ack.fork()
          const events = lineBatch(made, origin, batch.receivedAt, batch.ack, batch.isBacklog)
          events.behind = batch.behind
          if (origin.wanted.areIdsUsed) nameAfter(events, batch, from, end, i => replaced.size(i))
          metrics.emitted(events.length, events.bytes)
          this.#pass(events)
        }
      }
      from = end
    }
    replaced.release()
    batch.ack.settle('delivered')
  }

  /**
   * The origin of events that replace others. Its source is the source of the replaced events, so that the order among
   * events of that source is kept.
   */
  #originOf(source: string): Origin {
    let origin = this.#origins.get(source)
    if (!origin) {
      origin = { ...this.#context.origin, source }
      this.#origins.set(source, origin)
    }
    return origin
  }

  /** Sends the events of a batch. `first`: the index in `work` of the batch's first event. */
  #divide(batch: EventBatch, to: Uint8Array, work: Work, first = 0): void {
    const { length, starts, ends, flags } = batch
    const events = this.#events.fill(0)
    const bytes = this.#bytes.fill(0)
    // V8 would look up an imported number again for each event.
    const lineEnd = LINE_END | 0
    for (let i = 0; i < length; i++) {
      const value = to[i]!
      events[value]!++
      bytes[value]! += ends[i]! - starts[i]! + (flags[i]! & lineEnd)
    }
    if (this.observer?.wants(batch)) this.#show(batch, to, events, work, first)
    if (work.copies) this.#sendWithCopies(batch, to, work.copies, first)
    this.#count(events, bytes)
    if (events[LATER]! > 0) {
      work.kept ??= []
      const all = events[LATER] === length
      work.kept.push(all ? batch : batch.pick(i => to[i] === LATER)!)
      if (all) return
    }
    for (let n = 0; n < this.#own.length; n++) {
      if (this.#aside(batch, this.#own[n]!, events[1 + n]!, i => to[i] === 1 + n)) return
    }
    const discarded = this.#outputs.get(DISCARDED)
    if (discarded) {
      let all = 0
      for (let n = 0; n < this.#reasons.length; n++) all += events[FIRST_REASON + n]!
      if (this.#aside(batch, discarded, all, i => to[i]! >= FIRST_REASON && to[i]! < LATER)) return
    }
    // All events are consumed. Only shares still hold the batch, and do not need its memory, so the memory is released.
    if (events[CONSUMED] === length && batch.ack.isHeldBy(1 + work.shares)) batch.ack.shrink(batch.held)
    if (events[MAIN] === 0) batch.ack.settle('delivered')
    else {
      if (events[MAIN] !== length) batch.retainZeros(to, events[MAIN]!, bytes[MAIN]!)
      this.#pass(batch)
    }
  }

  /**
   * Shows the observer the events that are not passed on. `events`: their number by decision. `first`: as in `#divide`.
   */
  #show(batch: EventBatch, to: Uint8Array, events: Float64Array, { errors }: Work, first: number): void {
    const show = (value: number, reason: string) => {
      if (events[value]! === 0) return
      const error = (i: number) => errors?.get(first + i)
      this.observer!.discarded({ batch, reason, events: events[value]!, to, value, areKept: value === FAILED, error })
    }
    for (let n = 0; n < this.#own.length; n++) if (!this.#own[n]!.connected) show(1 + n, UNROUTED)
    for (let n = 0; n < this.#reasons.length; n++) show(FIRST_REASON + n, this.#reasons[n]!)
    show(FAILED, PROCESSING_FAILED)
  }

  /** Sends and counts events of outputs that also get copies. Removes these events from `#events` and `#bytes`. */
  #sendWithCopies(batch: EventBatch, to: Uint8Array, copies: ReadonlyMap<number, Uint8Array>, first: number): void {
    for (const [n, all] of copies) {
      const copied = all.subarray(first, first + batch.length)
      const value = 1 + n
      let events = 0
      let bytes = 0
      for (let i = 0; i < batch.length; i++) {
        if (to[i] === LATER || to[i] === value) copied[i] = 0
        events += copied[i]!
        bytes += copied[i]! * batch.size(i)
      }
      this.#context.metrics.emitted(events, bytes)
      events += this.#events[value]!
      bytes += this.#bytes[value]!
      this.#events[value] = 0
      this.#bytes[value] = 0
      const output = this.#own[n]!
      if (events > 0) this.#countSide(output, this.#names[n]!, events, bytes)
      if (events === 0 || !output.isRead) continue
      output.events += events
      // The batch also has events for other outputs, so only the events for this output are picked and passed on.
      this.#passOn(batch.pick(i => to[i] === value || copied[i] === 1)!, output)
    }
  }

  #count(events: Float64Array, bytes: Float64Array): void {
    const { metrics } = this.#context
    for (let n = 0; n < this.#own.length; n++) {
      if (events[1 + n]! > 0) this.#countSide(this.#own[n]!, this.#names[n]!, events[1 + n]!, bytes[1 + n]!)
    }
    for (let n = 0; n < this.#reasons.length; n++) {
      const value = FIRST_REASON + n
      if (events[value]! > 0) metrics.discarded(this.#reasons[n]!, events[value]!, bytes[value]!)
    }
    if (events[CONSUMED]! > 0) metrics.consumed(events[CONSUMED]!, bytes[CONSUMED]!)
  }

  /** If an output is read, writes `count` events of the batch to it. Returns whether the whole batch was written. */
  #aside(batch: EventBatch, output: SideOutput, count: number, isMeant: (i: number) => boolean): boolean {
    if (count === 0 || !output.isRead) return false
    const all = count === batch.length
    output.events += count
    this.#passOn(all ? batch : batch.pick(isMeant)!, output)
    return all
  }
}

/** Whether the first `length` decisions are MAIN. Comparing memory takes a tenth of a loop's time. */
function isAllMain(to: Uint8Array, length: number): boolean {
  for (let at = 0; at < length; at += ALL_MAIN.length) {
    const end = Math.min(length, at + ALL_MAIN.length)
    if (ALL_MAIN.compare(to, at, end, 0, end - at) !== 0) return false
  }
  return true
}
