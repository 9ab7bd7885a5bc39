import type { Left } from './leak-probe.js'

/** What may be left more than before: caches, and code that was compiled since. */
const MOST_HEAP_MB = 8

/** The kinds of which there must not be more than at the beginning, and are. */
export function growth(first: Left, last: Left): string[] {
  const found: string[] = []
  if (last.descriptors > first.descriptors) {
    const files = last.files.filter(file => !first.files.includes(file))
    found.push(`descriptors: ${first.descriptors}, then ${last.descriptors}, with ${files.join(', ')}`)
  }
  for (const [kind, amount] of Object.entries(last.resources)) {
    const before = first.resources[kind] ?? 0
    if (amount > before) found.push(`${kind}: ${before}, then ${amount}`)
  }
  return found
}

/** What there is more of at the end than in the middle, and of what must not grow at all, than at the beginning. */
export function leaks(left: readonly Left[]): string[] {
  const [first, middle, last] = left as [Left, Left, Left]
  const found = growth(first, last)
  const grown = (last.heapBytes - middle.heapBytes) / 1e6
  if (grown > MOST_HEAP_MB) found.push(`heap: ${grown.toFixed(1)} MB more than in the middle`)
  return found
}
