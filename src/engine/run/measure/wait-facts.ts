import type { Wait } from '../../../core/status-document.js'
import { clockTime, counted } from '../../../lib/units.js'
import type { ComponentConfig } from '../../config/load.js'
import type { ComponentCounters, ReadSamples } from '../../flow/counters.js'

const NAMED = 5
const BLOCKED = 'sluice_component_blocked_components'

function listed(ids: readonly string[]): string {
  const named = ids.length > NAMED ? [...ids.slice(0, NAMED), `${ids.length - NAMED} more`] : ids
  return new Intl.ListFormat('en').format(named)
}

/** Whether other components wait for this one. */
export const blocksOthers = (counters: Pick<ComponentCounters, 'sum'>, read?: ReadSamples) =>
  (counters.sum(BLOCKED, {}, read) ?? 0) > 0

/** Shows for whom a component waits, and which components wait for it. `all`: the present waits. */
export function showWaits(
  counters: ComponentCounters,
  { id, delivery, definition }: Pick<ComponentConfig, 'id' | 'delivery' | 'definition'>,
  all: () => readonly Wait[],
): void {
  const causes = () => all().find(wait => wait.id === id)?.for ?? []
  counters.fact({
    name: 'sluice_component_waiting_for',
    help: 'Always 1: a component waits for another one, which has made no progress for some seconds.',
    read: () => causes().map(root => ({ labels: { for: root }, value: 1 })),
    shown: () => causes().length > 0 && `waits for ${listed(causes())}`,
  })
  const waiting = () => all().filter(wait => wait.for.includes(id))
  const ids = () => waiting().map(wait => wait.id)
  const mayBuffer = delivery?.buffer.type === 'memory' && !definition.spools
  const room = mayBuffer
    ? `, or give ${id} a disk buffer: \`buffer: { type: disk }\`. With \`buffer: { type: disk, when_full: drop_newest }\`, a full buffer discards new events`
    : ''
  counters.fact({
    name: BLOCKED,
    help: 'Number of components that wait for this one, which has made no progress for some seconds.',
    read: () => waiting().length || [],
    shown: (count = 0) => count > 0 && `blocks ${counted(count, 'component')}`,
    problem(count, { wall }) {
      const { unanswered_ms: silentMs = 0 } = counters.live
      const began = clockTime(new Date(wall - silentMs).toISOString(), wall)
      const silent = silentMs > 0 ? ` ${id} has waited for an answer since ${began}.` : ''
      const since = waiting()
        .map(wait => wait.since)
        .sort()[0]!
      return {
        gravity: 'undelivered',
        what: `${listed(ids())} ${count === 1 ? 'waits' : 'wait'} for ${id}`,
        detail: `Since ${clockTime(since, wall)}.${silent}`,
        todo: `Correct the cause${room}. Until then, sources do not read on: events that are removed before they are read, for example by log rotation, are lost.`,
      }
    },
  })
}
