import type { EventBatch } from '../../core/event/batch.js'
import { type FieldReader, NUMBER } from '../../core/event/field-reader.js'
import { type Limit, PER_COST } from './limit.js'

/** What an event costs its limits, in what windows count (`scaleOf`). */
export class Costs {
  readonly #field: FieldReader | undefined

  constructor(field: FieldReader | undefined) {
    this.#field = field
  }

  /** The costs of a throttle; undefined if each event costs 1, and no limit is of bytes. */
  static for(limits: readonly Limit[], field: FieldReader | undefined): Costs | undefined {
    return field || limits.some(({ unit }) => unit === 'bytes') ? new Costs(field) : undefined
  }

  /**
   * What event `i` costs limits that are not of bytes. It costs 1 if its field is no number, or a negative one. More than
   * twice what any limit can be is cut to that: larger numbers could not be counted.
   */
  of(batch: EventBatch, i: number): number {
    const field = this.#field
    if (field === undefined) return 1
    const cost = field.load(batch, i) === NUMBER ? field.number() : 1
    return Math.min(Math.round((cost >= 0 ? cost : 1) * PER_COST), Number.MAX_SAFE_INTEGER)
  }
}
