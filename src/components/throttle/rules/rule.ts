import type { EventBatch } from '../../../core/event/batch.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import type { Limit } from '../limit.js'
import type { KeyPattern } from './key-pattern.js'

export interface RuleName {
  readonly list: 'limits' | 'limits_file'
  /** The rule's position in its list, from 1. */
  readonly place: number
  /** The pattern and condition of the rule, as in `key batch-*`. */
  readonly text: string
}

/** Limits for events that satisfy a condition, or whose bucket matches a pattern, or both. */
export interface Rule {
  /** Stays the same if the rule moves in its list. */
  readonly id: string
  /** The same in all daemons that have a rule with this pattern and condition, even if the limits differ. */
  readonly sharedName: string
  readonly name: RuleName
  readonly when: ((batch: EventBatch, i: number) => boolean) | undefined
  readonly key: KeyPattern | undefined
  /** Empty: all events pass. */
  readonly limits: readonly Limit[]
  readonly costField: FieldReader | undefined
}
