import type { EventBatch } from './event/batch.js'
import type { Fields } from './event/event.js'
import type { Share } from './event/share.js'

/**
 * The contract between the engine and a processor. A processor decides, and the stage around it (flow/stage.ts) does the
 * rest: it counts, moves events, keeps order, waits, settles, and handles failures.
 */

/** Values of the column that `process` fills, one for each event. The column comes filled with MAIN. */
export const MAIN = 0
/** The event goes to output `n` of the plan. */
export const output = (n: number): number => 1 + n
/** The event is discarded for reason `n` of the plan. It can be read at the output `discarded`. */
export const discard = (n: number): number => FIRST_REASON + n
/** The processor has taken what it needs of the event. What it makes of it comes with `emit`. */
export const CONSUMED = 254
/** The event could not be processed; `on_error` decides what happens to it. */
export const FAILED = 255

/** Values of outputs are below it. */
export const FIRST_REASON = 128

/** The output where discarded events can be read. */
export const DISCARDED = 'discarded'

/** What a processor with certain options can do with events: known before anything runs. */
export interface Plan {
  /** Names of outputs of its own, as those of a route. What goes there counts as sent. */
  readonly outputs?: readonly string[]
  /** Why it discards events: values of the label `reason`. */
  readonly reasons?: readonly string[]
  /** The option that outputs or reasons come from. `validate` shows there what is wrong with them. */
  readonly option?: string
  /** Milliseconds between two calls of `emit`. */
  readonly every?: number
  /** So many batches it may have under way at a time; 1 when it is left out. */
  readonly concurrency?: number
}

/** A column has room for so many of them beside the values above; one more reason is `processing_failed`. */
const MOST_OUTPUTS = FIRST_REASON - 1
const MOST_REASONS = CONSUMED - FIRST_REASON - 1

/** What is wrong with a plan, and what to do; undefined where nothing is. */
export function planProblem({ outputs = [], reasons = [] }: Plan): string | undefined {
  for (const [what, names, most] of [
    ['outputs', outputs, MOST_OUTPUTS],
    ['discard reasons', reasons, MOST_REASONS],
  ] as const) {
    if (names.length > most) {
      return `makes ${names.length} ${what}, and a processor can have at most ${most}; divide them among several processors`
    }
    const twice = names.find((name, i) => names.indexOf(name) < i)
    if (twice !== undefined) return `makes two ${what} named ${twice}; rename one of them`
  }
  if (outputs.includes(DISCARDED)) {
    return `makes an output named ${DISCARDED}, where discarded events are read; rename it`
  }
  return undefined
}

/** What `process` may do besides filling the column. */
export interface BatchScope {
  /** Aborts when nobody wants the result any more. */
  readonly signal: AbortSignal
  /** Puts these events in the place of event `i`, none or several. They are acknowledged together with it. */
  replace(i: number, events: readonly Fields[]): void
  /**
   * A share in the acknowledgement of the batch, for events that are kept until `emit`: their source goes on from behind
   * them only when all shares are settled. Hand it over with what is emitted.
   */
  share(): Share
  /** Says why event `i` is FAILED, for the log and the dead letter. */
  because(i: number, error: unknown): void
}

/** An event of a processor's own making. */
export interface Emitted {
  readonly fields: Fields
  /** The shares of what it was made of. They are settled as this event is. */
  readonly shares?: readonly Share[]
}

/** time: `every` has passed. drain: nothing comes any more. reload: another one takes over, and shares cannot go with it. */
export type EmitReason = 'time' | 'drain' | 'reload'

/** What becomes of an event that a processor could not process. */
export type OnError = 'pass' | 'discard' | 'dead_letter'

/** The outputs beside the main one that a plan has, by name. */
export function outputNames({ outputs = [], reasons = [] }: Plan, onError: OnError): string[] {
  return [...outputs, ...(reasons.length > 0 || onError === 'discard' ? [DISCARDED] : [])]
}

export interface Decides {
  /**
   * Decides on every event of the batch, which has at least one, by filling `to`, at once or later. It may change events with
   * `batch.modify`, and must not change anything else. What it throws, or rejects with, fails the events that cause it, one by
   * one. An event with a value that the plan does not have is FAILED.
   */
  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void | Promise<void>
  /** The events of its own that are due. */
  emit?(why: EmitReason): readonly Emitted[]
}
