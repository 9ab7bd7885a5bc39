import type { ProcessorOutage } from '../../core/component.js'

type States = readonly { readonly state: string }[]

/**
 * Whether nothing is blocked. `failures` are those of sources, `outages` those of processors. A retrying destination
 * counts as ready: it has delivered before, and fails for minutes at most.
 */
export function isReady(
  destinations: States,
  failures: States = [],
  outages: readonly Pick<ProcessorOutage, 'isStuck'>[] = [],
): boolean {
  const waits = failures.some(({ state }) => state === 'holding') || outages.some(({ isStuck }) => isStuck)
  return !waits && destinations.every(({ state }) => state === 'ready' || state === 'retrying' || state === 'stopped')
}
