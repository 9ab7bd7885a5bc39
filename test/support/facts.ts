import { pino } from 'pino'
import type { Kind } from '../../src/core/component.js'
import type { ReportedProblem } from '../../src/core/status-document.js'
import { problemsOf } from '../../src/daemon/status/problems.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { Metrics } from '../../src/engine/run/measure/metrics.js'

/** The problems that the facts of these metrics report. */
export const reportedBy = (metrics: Metrics, wall = 0): ReportedProblem[] =>
  problemsOf({ wall, metrics, components: [], destinations: [], sources: [], processors: [] }).problems

/** The problems of one component. */
export function problemsFrom(counters: ComponentCounters, wall?: number): ReportedProblem[] {
  const metrics = new Metrics(pino({ level: 'silent' }))
  metrics.components.set(counters.id, counters)
  return reportedBy(metrics, wall)
}

/** The problems of a component `id` to which `register` has given its facts. */
export function problemsIn(
  id: string,
  register: (metrics: ComponentCounters) => void,
  { kind = 'source' as Kind, wall = 0 } = {},
): ReportedProblem[] {
  const counters = new ComponentCounters(id, kind, 'x')
  register(counters)
  return problemsFrom(counters, wall)
}
