import type { EventBatch } from '../../core/event/batch.js'
import { type FieldReader, NUMBER } from '../../core/event/field-reader.js'

import type { CalendarUnit } from './windows/periods.js'

export type WindowMode = 'fixed' | 'aligned' | 'sliding' | 'gcra'

export type Limit = Rate | Quota

interface Counted {
  /** Maximum amount per window, in `unit`. */
  readonly limit: number
  readonly windowMs: number
  /** gcra only: the amount, in `unit`, that may pass at once in addition to the smooth rate. Default: limit - 1. */
  readonly burst?: number | undefined
  /** `cost`: a limit of events in which each event counts with its cost instead of 1. */
  readonly unit: 'events' | 'bytes' | 'cost'
}

interface Rate extends Counted {
  readonly mode: WindowMode
}

/** A limit in each calendar period. `windowMs` is the usual length of a period. */
export interface Quota extends Counted {
  readonly mode: 'quota'
  readonly per: CalendarUnit
  readonly timeZone: string
}

/**
 * Costs are counted in whole millionths. Their sums are exact: a limit is below 2^32, and thus below 2^53 millionths.
 */
export const PER_COST = 1_000_000

/** The number of window units in one unit of the limit. Windows count costs in millionths. */
export function scaleOf({ unit }: Limit): number {
  return unit === 'cost' ? PER_COST : 1
}

/** How full a window is. Times are by the clock of the decisions. Amounts are in the unit of the limit. */
export interface Level {
  readonly limit: Limit
  readonly used: number
  /**
   * `since`: when the counted span began. `until`: when nothing in this span will count any longer. Both are the
   * current time if nothing is counted.
   */
  readonly since: number
  readonly until: number
}

/** Reads the costs of events, in window units (`scaleOf`). */
export class Costs {
  readonly #field: FieldReader | undefined

  constructor(field: FieldReader | undefined) {
    this.#field = field
  }

  /** Returns undefined if each event costs 1 and no limit counts bytes. */
  static for(limits: readonly Limit[], field: FieldReader | undefined): Costs | undefined {
    return field || limits.some(({ unit }) => unit === 'bytes') ? new Costs(field) : undefined
  }

  /**
   * The cost of event `i` for limits that do not count bytes. The cost is 1 if the field is negative or not a number.
   * The cost is at most twice the largest limit, because larger numbers could not be counted exactly.
   */
  of(batch: EventBatch, i: number): number {
    const field = this.#field
    if (field === undefined) return 1
    const cost = field.load(batch, i) === NUMBER ? field.number() : 1
    return Math.min(Math.round((cost >= 0 ? cost : 1) * PER_COST), Number.MAX_SAFE_INTEGER)
  }
}
