import type { Counts } from './run.js'

/** Adds what one run counted. */
export function addCounts(total: Counts, counts: Counts): void {
  for (const [name, value] of Object.entries(counts) as [keyof Counts, Counts[keyof Counts]][]) {
    if (typeof value === 'number') (total[name] as number) += value
    else {
      const sums = total[name] as Record<string, number>
      for (const [key, n] of Object.entries(value)) sums[key] = (sums[key] ?? 0) + n
    }
  }
}

/** For people: a line for the numbers, one for the steps, one for the faults. */
export function formatCounts({ actions, faults, lost, ...numbers }: Counts): string {
  const list = (counts: object) =>
    Object.entries(counts)
      .map(([name, n]) => `${name.replaceAll('_', ' ')} ${n}`)
      .join(', ')
  return [
    `in all: ${list(numbers)}`,
    `steps: ${list(actions)}`,
    `requests with a fault: ${list(faults)}`,
    `lines lost by nature: ${list(lost)}`,
  ].join('\n')
}
