import type { ProcessorOutage } from '../../core/status-document.js'

type States = readonly { readonly state: string }[]

/**
 * Whether nothing is blocked. `failures` are failures of sources, and `outages` are outages of processors. A retrying
 * destination is ready, because it has delivered before and fails for a few minutes at most.
 */
export function isReady(
  destinations: States,
  failures: States = [],
  outages: readonly Pick<ProcessorOutage, 'isStuck'>[] = [],
): boolean {
  const waits = failures.some(({ state }) => state === 'holding') || outages.some(({ isStuck }) => isStuck)
  return !waits && destinations.every(({ state }) => state === 'ready' || state === 'retrying' || state === 'stopped')
}
