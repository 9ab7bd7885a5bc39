import { computed } from '@preact/signals'
import type { NoteLevel } from '../kit/parts.js'
import { clock, countedWhole, durationText, percentText } from '../kit/words.js'
import { now, second, status } from './live.js'
import type { PageStatus, ShownDestination } from './types.js'

export interface Health {
  readonly level: NoteLevel
  readonly words: string
  /** `words` without the parts that change every second. */
  readonly brief?: string
  /** Whether this is also one of the daemon's problems. */
  readonly isProblem?: boolean
}

/** Describes a state, as in `retrying since 14:01:07 (2m 5s), next attempt in 8s`. */
export function stateText({ state, since, next_attempt }: ShownDestination, at: number): string {
  if (since === undefined) return state
  const next = next_attempt === undefined ? '' : `, next attempt ${nextIn(Date.parse(next_attempt) - at)}`
  return `${state} since ${clock(since, at)} (${durationText(at - Date.parse(since))})${next}`
}

const nextIn = (ms: number) => (ms < 1000 ? 'now' : `in ${durationText(ms)}`)

/** Describes for what a component waits; undefined if it does not wait. */
export function waitText(id: string): string | undefined {
  const wait = status.value?.waiting_for.find(one => one.id === id)
  return wait && `waits for ${wait.for.join(', ')} since ${clock(wait.since, now.value)}`
}

/** States of destinations without problems. */
const GOOD = new Set(['ready', 'stopped'])

/** The problems of each component, worst first. Components without an entry are fine. */
export const health = computed(() => {
  const found = new Map<string, Health[]>()
  if (status.value)
    for (const [id, one] of healthIn(status.value, now.value)) found.set(id, [...(found.get(id) ?? []), one])
  return found
})

function* healthIn(seen: PageStatus, at: number): Generator<[string, Health]> {
  const named = new Set<string>()
  for (const destination of seen.destinations) {
    const { id, state, reason } = destination
    if (GOOD.has(state)) continue
    named.add(id)
    const why = reason === undefined ? '' : `: ${reason}`
    const since = destination.since === undefined ? '' : ` since ${clock(destination.since, at)}`
    const isProblem = seen.problems.some(({ component }) => component === id)
    yield [
      id,
      { level: 'error', words: `${stateText(destination, at)}${why}`, brief: `${state}${since}${why}`, isProblem },
    ]
  }
  for (const { id, state, reason } of [
    ...seen.sources,
    ...seen.processors.map(one => ({ state: 'failing', ...one })),
  ]) {
    named.add(id)
    yield [id, { level: 'error', words: `${state}: ${reason}` }]
  }
  for (const { component: id, what } of seen.problems) {
    if (id === undefined || named.has(id)) continue
    yield [
      id,
      {
        level: 'error',
        words: what.startsWith(id) ? what.slice(id.length).replace(/^:? /, '') : what,
        isProblem: true,
      },
    ]
  }
  for (const { id, state } of seen.destinations) {
    const silentMs = second.value?.destinations[id]?.unanswered_ms ?? 0
    if (GOOD.has(state) && silentMs > 0)
      yield [id, { level: 'warning', words: `no answer for ${durationText(silentMs)}`, brief: 'no answer' }]
  }
  for (const { id } of seen.waiting_for) yield [id, { level: 'note', words: waitText(id)! }]
  for (const { id, events, buckets } of seen.waiting) {
    const [first] = buckets
    const whose =
      first === undefined
        ? ''
        : `, ${countedWhole(first.events, 'event')} of ${first.key ?? 'the default bucket'} since ${clock(first.since, at)}`
    yield [id, { level: 'note', words: `${countedWhole(events, 'event')} waiting${whose}` }]
  }
  if (seen.bottleneck)
    yield [
      seen.bottleneck.id,
      { level: 'note', words: `the busiest component: ${percentText(seen.bottleneck.share)} of the time` },
    ]
}

const RANKS: Readonly<Record<NoteLevel, number>> = { error: 3, warning: 2, note: 1, fine: 0 }

export const worstOf = (id: string): Health | undefined => health.value.get(id)?.[0]
export const rankOf = (id: string): number => RANKS[worstOf(id)?.level ?? 'fine']
