import { parsedNumber } from '../../../core/event/field-reader.js'
import { exactJson } from '../../../lib/formats/normal-json.js'

export interface Collector {
  add(value: unknown): void
  /** If no event had a value: 0 for the rule `count`, otherwise undefined. */
  result(): unknown
}

const numberIn = (value: unknown): number | bigint => {
  const number = typeof value === 'string' ? parsedNumber(value) : value
  return typeof number === 'number' || typeof number === 'bigint' ? number : Number.NaN
}

/** Combines numbers. The result is undefined without a number. */
function combined(combine: (a: number | bigint, b: number | bigint) => number | bigint): Collector {
  let result: number | bigint | undefined
  return {
    add(value) {
      const number = numberIn(value)
      if (!Number.isNaN(number)) result = result === undefined ? number : combine(result, number)
    },
    result: () => result,
  }
}

function last(): Collector {
  let result: unknown
  return { add: value => (result = value), result: () => result }
}

function concat(): Collector {
  const texts: string[] = []
  return {
    add(value) {
      if (typeof value === 'object') return
      texts.push(String(value))
    },
    result: () => (texts.length > 0 ? texts.join(' ') : undefined),
  }
}

function array(): Collector {
  const values: unknown[] = []
  return { add: value => values.push(value), result: () => (values.length > 0 ? values : undefined) }
}

function unique(): Collector {
  const values = new Map<string, unknown>()
  return {
    add: value => values.set(exactJson(value), value),
    result: () => (values.size > 0 ? [...values.values()] : undefined),
  }
}

function count(): Collector {
  let values = 0
  return { add: () => values++, result: () => values }
}

const COLLECTORS = {
  last,
  sum: () => combined((a, b) => Number(a) + Number(b)),
  min: () => combined((a, b) => (b < a ? b : a)),
  max: () => combined((a, b) => (b > a ? b : a)),
  concat,
  array,
  unique,
  count,
} satisfies Record<string, () => Collector>

export const RULES = ['first', ...(Object.keys(COLLECTORS) as (keyof typeof COLLECTORS)[])] as const
export type MergeRule = (typeof RULES)[number]

/** Rules that keep every value. */
export const GROWING: readonly MergeRule[] = ['concat', 'array', 'unique']

/** Returns undefined if the value of the first event stays. */
export function collectorOf(rule: MergeRule): Collector | undefined {
  return rule === 'first' ? undefined : COLLECTORS[rule]()
}
