import { compileCondition, type EventTest } from '../../../core/condition/condition.js'
import { conditionText } from '../../../core/condition/condition-text.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { UsageError } from '../../../daemon/process/command-line.js'
import { conditionOf } from '../../screen/condition-flag.js'
import { number } from './table.js'
import type { FieldContext } from './trials.js'

/** What a limit has to achieve. */
export interface Goal {
  /** Whether all limits from a certain one on achieve it, rather than all up to a certain one. */
  readonly smallest: boolean
  /** In words, after `a limit that`. */
  readonly text: string
  /** Counts for so many limits of throttles with this window. */
  meter(limits: number, windowMs: number, context: FieldContext): Meter
}

/** What a limit does for a goal. */
export interface Does {
  /** In words, after `this`. */
  readonly text: string
  /** `matching` and `kept` events, or `bytes_per_period`. */
  readonly figures: Readonly<Record<string, number>>
}

/** Counts what limits do, for one goal. */
export interface Meter {
  /** `lost[k]` is 1 if limit `k` discards the event. */
  add(batch: EventBatch, i: number, now: number, lost: Uint8Array): void
  /** Whether a limit achieves the goal. */
  achieves(limit: number): boolean
  result(limit: number): Does
  /** Why no limit can achieve it; undefined if that is not known. */
  readonly hopeless: string | undefined
}

const KEEP = /^\s*keep\s+(\d{1,3})(?:\.(\d{1,6}))?\s*%(?:\s+(?:of\s+|where\s+)?(.+))?$/is

/** `keep 99% where .level equal 'error'`. Throws UsageError. */
export function keepGoal(text: string): Goal {
  const [, whole, fraction = '', where] = KEEP.exec(text) ?? []
  const form = `--suggest must be like "keep 99% where .level equal 'error'"`
  if (whole === undefined) throw new UsageError(form, 'simulate')
  const scale = 10 ** fraction.length
  const share = Number(whole + fraction)
  if (share > 100 * scale || share === 0)
    throw new UsageError(`${form}: more than 0 and at most 100 percent`, 'simulate')
  const condition = where === undefined ? undefined : conditionOf(where, 'suggest', 'simulate')
  const matching = condition === undefined ? 'events' : `events where ${conditionText(condition)}`
  const percent = `${whole}${fraction && `.${fraction}`}%`
  return {
    smallest: true,
    text: `keeps ${percent} of the ${matching}`,
    meter: (limits, _windowMs, context) => {
      const test = condition === undefined ? undefined : compileCondition(condition, path => context.field(path))
      return new KeepMeter(limits, test, matching, events => events * 100 * scale, share)
    },
  }
}

/** Counts the events that are to be kept, and those that each limit keeps. */
class KeepMeter implements Meter {
  readonly #test: EventTest | undefined
  readonly #matching: string
  readonly #scaled: (events: number) => number
  readonly #share: number
  readonly #kept: Float64Array
  #total = 0

  constructor(
    limits: number,
    test: EventTest | undefined,
    matching: string,
    scaled: (events: number) => number,
    share: number,
  ) {
    this.#kept = new Float64Array(limits)
    this.#test = test
    this.#matching = matching
    this.#scaled = scaled
    this.#share = share
  }

  add(batch: EventBatch, i: number, _now: number, lost: Uint8Array): void {
    if (this.#test && !this.#test(batch, i)) return
    this.#total++
    for (let k = 0; k < lost.length; k++) this.#kept[k]! += 1 - lost[k]!
  }

  achieves(limit: number): boolean {
    return this.#total > 0 && this.#scaled(this.#kept[limit]!) >= this.#share * this.#total
  }

  result(limit: number): Does {
    const kept = this.#kept[limit]!
    const percent = ((kept / this.#total) * 100).toFixed(2)
    const text = `keeps ${percent} % of them (${number(kept)} of ${number(this.#total)})`
    return { text, figures: { matching: this.#total, kept } }
  }

  get hopeless(): string | undefined {
    return this.#total === 0 ? `there are no ${this.#matching}` : undefined
  }
}
