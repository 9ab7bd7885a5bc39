import { formatSize } from '../../../lib/units.js'
import type { Comparison, Difference } from './compare.js'
import { keyName, number, percent, type SummaryStyle, tableLines } from './table.js'

/** What `--compare` prints as JSON. */
export interface ComparisonResult {
  readonly component: string
  readonly config: string
  readonly other: string
  readonly complete: boolean
  /** Events that were read, before the processors of both. */
  readonly events: number
  /** Events that pass each of them, excluded ones included. */
  readonly passed: { readonly this: number; readonly other: number }
  readonly total: Difference
  readonly by_key: readonly (Difference & { readonly key: string | null })[]
  readonly others: Difference | null
}

const MOST_KEYS = 1000
const SHOWN_KEYS = 20

export function comparisonResult(
  comparison: Comparison,
  about: Pick<ComparisonResult, 'component' | 'config' | 'other' | 'complete'>,
): ComparisonResult {
  const { one, passed, otherPassed } = comparison
  return { ...about, events: one.read, passed: { this: passed, other: otherPassed }, ...comparison.byKey(MOST_KEYS) }
}

/** The comparison for a terminal, including line ends. */
export function comparisonText(result: ComparisonResult, style: SummaryStyle): string {
  const { component, config, other, complete, events, passed, total, by_key, others } = result
  const lines = [
    `compared   ${component} of ${config} and of ${other}`,
    ...(complete ? [] : ['note       interrupted before the end of the input']),
    '',
    `events     ${number(events)}`,
    `passed     ${number(passed.this)} (${percent(passed.this, events)}) here, ${number(passed.other)} (${percent(passed.other, events)}) there`,
    `only here  ${number(total.only_this)} (${formatSize(total.only_this_bytes)})`,
    `only there ${number(total.only_other)} (${formatSize(total.only_other_bytes)})`,
  ]
  if (by_key.length === 0) return `${[...lines, '', 'The same events pass.'].join('\n')}\n`
  const cells = (row: Difference) => [
    number(row.only_this),
    formatSize(row.only_this_bytes),
    number(row.only_other),
    formatSize(row.only_other_bytes),
  ]
  const rows = by_key.slice(0, SHOWN_KEYS).map(row => [keyName(row), ...cells(row)])
  const rest = [...by_key.slice(SHOWN_KEYS), ...(others ? [others] : [])]
  if (rest.length > 0) rows.push(['other keys', ...cells(rest.reduce(sumOf))])
  const titles = ['key', 'only here', 'size', 'only there', 'size']
  return `${[...lines, '', ...tableLines(titles, rows, style)].join('\n')}\n`
}

function sumOf(a: Difference, b: Difference): Difference {
  return {
    only_this: a.only_this + b.only_this,
    only_this_bytes: a.only_this_bytes + b.only_this_bytes,
    only_other: a.only_other + b.only_other,
    only_other_bytes: a.only_other_bytes + b.only_other_bytes,
  }
}
