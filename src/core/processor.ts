import type { Share } from './event/ack.js'
import type { EventBatch } from './event/batch.js'
import type { Fields } from './event/event-fields.js'

/**
 * The contract between the engine and a processor. A processor only decides about events. The processor's stage
 * (engine/flow/stage.ts) counts and moves events, keeps their order, waits, settles acknowledgements and handles
 * failures.
 */

/** Values of the column that `process` fills. The column has one value for each event, initially MAIN. */
export const MAIN = 0
/** The event goes to output `n` of the plan. */
export const output = (n: number): number => 1 + n
/** The event is discarded for reason `n` of the plan, and goes to the output `discarded`. */
export const discard = (n: number): number => FIRST_REASON + n
/**
 * The event waits in the stage, and the stage asks the processor again later (see `BatchScope.later`). Only if the plan
 * `waits`.
 */
export const LATER = 253
/** The processor has merged the event into another event, which `emit` will return. */
export const CONSUMED = 254
/** The processor could not process the event. `on_error` decides what happens to it. */
export const FAILED = 255

/** The values of outputs are smaller than this value. */
export const FIRST_REASON = 128

export const DISCARDED = 'discarded'

/** The discard reason of events whose output has no reader. */
export const UNROUTED = 'unrouted'

/** What a processor with certain options can do with events, known before it runs. */
export interface Plan {
  /** Names of side outputs, such as a route's. Events sent there count as sent or, without a reader, as UNROUTED. */
  readonly outputs?: readonly string[]
  /** Name of a further side output: MAIN events go there instead of to the main output. */
  readonly main?: string
  /** Whether an event may go to several outputs: see `BatchScope.copy`. */
  readonly copies?: boolean
  /** Reasons for discarding events: values of the label `reason`. */
  readonly reasons?: readonly string[]
  /** The option that defines outputs or reasons. `validate` reports problems with them at that option. */
  readonly option?: string
  /** The processor only observes events, so its output needs no reader. */
  readonly observes?: boolean
  /** Options that have an effect only if a component reads `output`. `what`: the events of that output. */
  readonly expects?: readonly { readonly option: string; readonly output: string; readonly what: string }[]
  /** Milliseconds between calls of `emit`. */
  readonly every?: number
  /**
   * Whether the processor keeps events between batches. On reload, `handOver` passes the kept events with their shares
   * to a successor with the same options, and the processor emits nothing. Without a successor, or when no more events
   * arrive, the processor must emit all kept events.
   */
  readonly keeps?: boolean
  /** Whether it may decide LATER. */
  readonly waits?: boolean
  /** Number of batches that may be processed at the same time; default 1. */
  readonly concurrency?: number
}

/** The range of column values sets these limits. One of the values for reasons is reserved for `processing_failed`. */
const MOST_OUTPUTS = FIRST_REASON - 1
const MOST_REASONS = LATER - FIRST_REASON - 1

/** Returns the problem with a plan and how to fix it; undefined if the plan is valid. */
export function planProblem({ outputs: sides = [], main, reasons = [] }: Plan): string | undefined {
  const outputs = main === undefined ? sides : [...sides, main]
  for (const [what, names, count, most] of [
    ['outputs', outputs, sides.length, MOST_OUTPUTS],
    ['discard reasons', reasons, reasons.length, MOST_REASONS],
  ] as const) {
    if (count > most) {
      return `makes ${count} ${what}, and a processor can have at most ${most}; divide them among several processors`
    }
    const twice = names.find((name, i) => names.indexOf(name) < i)
    if (twice !== undefined) return `makes two ${what} named ${twice}; rename one of them`
  }
  if (outputs.includes(DISCARDED)) {
    return `makes an output named ${DISCARDED}, where discarded events are read; rename it`
  }
  return undefined
}

/** Further actions that `process` can take, besides filling the column. */
export interface BatchScope {
  /** Aborts when the result is no longer needed. */
  readonly signal: AbortSignal
  /** Milliseconds since the batch's events became LATER; 0 when the processor is first asked about them. */
  readonly keptMs: number
  /**
   * Whether the processor before a reload decided LATER, and this processor is now asked about the events for the first
   * time.
   */
  readonly isInherited: boolean
  /** While the stage ends, true only if LATER events are passed on or read again. If false, decide now if possible. */
  readonly mayWait: boolean
  /**
   * Makes the stage ask again after `ms` milliseconds or slightly more, with only LATER events in the batch. Of several
   * calls, the smallest `ms` applies. Events of one source stay in their order of arrival.
   */
  later(ms: number): void
  /** Replaces event `i` by any number of events, which are acknowledged together with it. */
  replace(i: number, events: readonly Fields[]): void
  /**
   * Like `replace`, but the new events are the JSON objects in [start, end) of `lines`, each with its line end. Copies
   * the bytes.
   */
  replaceByLines(i: number, lines: Buffer, start?: number, end?: number): void
  /**
   * Also sends a copy of event `i` to output `n` of the plan, which must have `copies`. The event itself goes where the
   * column says. Copies count as emitted. Makes no copy if the event fails, waits or is replaced.
   */
  copy(i: number, n: number): void
  /**
   * Whether the source cannot read the batch again. A share would then hold memory, but a killed process would still
   * lose the events.
   */
  readonly isOnce: boolean
  /**
   * Returns a share in the batch's acknowledgement, for events that the processor keeps until `emit`. The source's
   * position moves past these events only when all shares are settled. Let `emit` return the share with the event.
   */
  share(): Share
  /** Records why event `i` is FAILED, for the log and the dead-letter queue. */
  because(i: number, error: unknown): void
}

export interface Emitted {
  readonly fields: Fields
  /** The side output for the event; default: the main output. Without a reader, the event is discarded as UNROUTED. */
  readonly to?: string
  /**
   * Shares of the events from which this event was made. The shares are settled when this event is settled. All events
   * with shares must go to the same output.
   */
  readonly shares?: readonly Share[]
  /**
   * A unique name, from which the id of the event is derived. If the event is made again from the same events, it must
   * get the same name.
   */
  readonly name?: string
}

/**
 * time: the interval `every` has passed. drain: no more events arrive. reload: a successor may take over. A processor
 * can pass shares to the successor only if its plan has `keeps`.
 */
export type EmitReason = 'time' | 'drain' | 'reload'

export type OnError = 'pass' | 'discard' | 'dead_letter'

export function outputNames({ outputs = [], main, reasons = [] }: Plan, onError: OnError): string[] {
  const sides = main === undefined ? outputs : [...outputs, main]
  return [...sides, ...(reasons.length > 0 || onError === 'discard' ? [DISCARDED] : [])]
}

export interface Decides {
  /**
   * Decides about every event of a non-empty batch by filling `to`, synchronously or not. `process` may change events
   * only with an EventEditor or `batch.modify`. If `process` throws or rejects, the stage calls it again for each event
   * alone. If it then throws for an event, or sets a value outside the plan, that event is FAILED.
   */
  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void | Promise<void>
  /** Returns the emitted events that are due. */
  emit?(why: EmitReason): readonly Emitted[]
}
