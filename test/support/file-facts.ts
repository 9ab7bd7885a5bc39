import { registerGauges } from '../../src/components/file/gauges.js'
import type { ComponentMetrics, SourceContext } from '../../src/core/component.js'

/** Registers the facts of a file source that sees these numbers. */
export function registerFacts(
  metrics: ComponentMetrics,
  { watched = 1, unreadable = 0, silent = 0, deleted = 0 }: Readonly<Record<string, number>>,
): void {
  const gone = { awaySince: 1, size: deleted, committed: { offset: 0 }, unlinked: true, undelivered: deleted }
  registerGauges(
    { metrics, checkpoints: { savedAt: 1 }, clock: { wall: () => 1 } } as unknown as SourceContext,
    ...([
      { size: watched, tailers: deleted > 0 ? [gone] : [], lineages: new Map() },
      new Set(),
      { size: 0 },
      { problems: { unread: unreadable }, remote: { silent } },
    ] as unknown as Parameters<typeof registerGauges> extends [unknown, ...infer Rest] ? Rest : never),
  )
}
