import { wrap } from '../../daemon/process/wrap.js'
import type { DaemonView } from './daemon-view.js'

/** Below this share, no component counts as a bottleneck. */
const LEAST_SHARE = 0.5

/** The busiest component, and how busy it is; undefined if none is. */
export function bottleneckOf({ scrape }: Pick<DaemonView, 'scrape'>): { id: string; share: number } | undefined {
  const [first] = scrape.all('sluice_component_utilization').toSorted((a, b) => b.value - a.value)
  if (!first || first.value < LEAST_SHARE) return undefined
  return { id: first.labels.component_id!, share: first.value }
}

/** The bottleneck as a line for people. */
export function bottleneckLines(view: Pick<DaemonView, 'scrape'>, width: number): string[] {
  const found = bottleneckOf(view)
  if (!found) return []
  const text = `The bottleneck is ${found.id}: it was busy ${Math.round(found.share * 100)} % of the time lately.`
  return ['', ...wrap(text, width, '  ')]
}
