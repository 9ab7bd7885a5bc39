import { GRAVITIES, type GradedProblem, OVER_MS, type Seen } from '../../core/fact.js'
import type {
  ComponentStatus,
  DestinationState,
  ProcessorOutage,
  ReportedProblem,
  SourceFailure,
} from '../../core/status-document.js'
import { type ComponentCounters, GIVEN_BACK, type ReadSamples } from '../../engine/flow/counters.js'
import { areKept } from '../../engine/flow/dead-letters.js'
import { PROCESSING_FAILED } from '../../engine/flow/dispatch.js'
import type { Metrics } from '../../engine/run/measure/metrics.js'
import { blocksOthers } from '../../engine/run/measure/wait-facts.js'
import { clockTime, counted, short } from '../../lib/units.js'
import type { Rates } from './rates.js'

export type Named = Pick<ComponentStatus, 'id' | 'kind' | 'type'> & Partial<Pick<ComponentStatus, 'inputs'>>

export interface Observed extends Pick<Seen, 'wall' | 'about'> {
  readonly metrics: Pick<Metrics, 'components' | 'problems'>
  readonly read?: ReadSamples | undefined
  readonly components: readonly Named[]
  readonly destinations: readonly DestinationState[]
  /** Sources that wait for an operator, or that fail and are restarted. */
  readonly sources: readonly SourceFailure[]
  /** Processors that wait for a server which does not reply, or that do not finish processing their events. */
  readonly processors: readonly (ProcessorOutage & { readonly id: string })[]
  readonly rates?: Pick<Rates, 'grownAt'> | undefined
}

/** The problems of a daemon, worst first, and data that may have been removed on purpose. */
export function problemsOf(seen: Observed): { problems: ReportedProblem[]; notices: ReportedProblem[] } {
  const facts = seen.metrics.problems(seen.wall, seen.about, seen.read)
  const isUnsafe = facts.some(({ gravity }) => gravity === 'unsafe')
  const all = [
    ...destinationProblems(seen, isUnsafe),
    ...sourceProblems(seen),
    ...processorProblems(seen),
    ...facts,
    ...[...seen.metrics.components.values()].flatMap(one => [
      ...unprocessedProblems(one),
      ...discardProblems(one, seen),
    ]),
  ]
  const of = (wanted: GradedProblem['gravity']) =>
    all.filter(({ gravity }) => gravity === wanted).map(({ gravity: _, ...problem }) => problem)
  return { problems: GRAVITIES.filter(one => one !== 'notice').flatMap(of), notices: of('notice') }
}

const SAFE = 'No events are lost.'
/** Types of sources that lose events at a stop, because their senders do not send these events again. */
const ONCE: readonly string[] = ['tcp', 'stdin']

/** Destinations that do not deliver, with details of the outage. */
function destinationProblems(seen: Observed, isUnsafe: boolean): GradedProblem[] {
  const { metrics, components, destinations, wall } = seen
  const isOnce = components.some(({ kind, type }) => kind === 'source' && ONCE.includes(type))
  return destinations
    .filter(({ state }) => state !== 'ready' && state !== 'stopped')
    .map(destination => {
      const { id, state, reason, buffer } = destination
      const counters = metrics.components.get(id)
      const isSafe = !isUnsafe && (!isOnce || buffer !== undefined)
      const kept = counters && blocksOthers(counters, seen.read) ? ', as long as their sources keep them' : ''
      const safe = `No events are lost${isSafe ? '' : ' while the daemon runs'}${kept}.`
      const isNew = state === 'failing' && !counters?.passed.events
      const never = isNew ? 'It has delivered nothing since the daemon started.' : ''
      const detail = [outageDetail(destination, wall), never].filter(text => text !== '').join(' ')
      return {
        gravity: 'undelivered',
        component: id,
        what: reason === undefined ? `${id} is ${state}` : `${id} is ${state}: ${reason}`,
        ...(detail !== '' && { detail }),
        todo: deliveryAdvice(state, counters?.discards.has('buffer_full') ?? false).replace(SAFE, safe),
      }
    })
}

function deliveryAdvice(state: string, drops: boolean): string {
  if (drops) return 'Its buffer is full or was full, and events that did not fit were discarded. Correct the cause.'
  switch (state) {
    case 'refusing':
      return 'The receiver rejects most requests; on_reject decides where their events go. Correct the receiver or the events.'
    case 'retrying':
    case 'failing':
      return `${SAFE} Check what the error names: the receiver, the network or the disk.`
    case 'starting':
      return `${SAFE} Delivery begins when the destination has been checked.`
    default:
      return `${SAFE} Delivery resumes by itself when the cause is corrected.`
  }
}

/** Text such as `Since 14:01:07, 12 failed attempts, the last at 14:03:12, the next at 14:03:20.` */
function outageDetail(destination: DestinationState, wall: number): string {
  const { since, failures = 0, last_failure, next_attempt, oldest_event } = destination
  const sentences: string[] = []
  if (since !== undefined) {
    const parts = [`Since ${clockTime(since, wall)}, ${counted(failures, 'failed attempt')}`]
    if (last_failure !== undefined && failures > 1) parts.push(`the last at ${clockTime(last_failure, wall)}`)
    if (next_attempt !== undefined) {
      const isNow = Date.parse(next_attempt) - wall < 1000
      parts.push(isNow ? 'the next one now' : `the next at ${clockTime(next_attempt, wall)}`)
    }
    sentences.push(`${parts.join(', ')}.`)
  }
  if (oldest_event !== undefined) sentences.push(`The oldest waiting event is from ${clockTime(oldest_event, wall)}.`)
  return sentences.join(' ')
}

function sourceProblems({ sources }: Observed): GradedProblem[] {
  return sources.map(({ id, state, reason }) => {
    const holds = state === 'holding'
    return {
      gravity: 'stopped',
      component: id,
      what: `${id} ${holds ? 'is holding' : 'fails'}: ${reason}`,
      todo: holds
        ? 'It reads nothing until the cause is corrected, and then resumes by itself. No events are lost.'
        : 'It is restarted at its last position until it works. It resumes by itself when the cause is corrected.',
    }
  })
}

function processorProblems({ processors, wall }: Observed): GradedProblem[] {
  return processors.map(({ id, isStuck, reason, since, attempts, next_attempt, meanwhile }) => {
    const next = next_attempt === undefined ? 'trying now' : `next attempt at ${clockTime(next_attempt, wall)}`
    const tried = isStuck ? '' : `, ${counted(attempts, 'failure')}, ${next}`
    return {
      gravity: 'stopped',
      component: id,
      what: isStuck ? `${id} is stuck: ${reason}` : `${id} cannot ask the server of its cluster limit: ${reason}`,
      detail: `Since ${clockTime(since, wall)}${tried}. Meanwhile ${meanwhile}.`,
      todo: isStuck
        ? 'Correct the plugin: each call of process must end. Then reload, or restart the daemon.'
        : 'Check the server, the network and the options of redis. The throttle asks the server again by itself.',
    }
  })
}

/** A processor that could not process most of its events and passed them on unchanged. */
function unprocessedProblems({ id, kind, failures, received, discards }: ComponentCounters): GradedProblem[] {
  const count = kind === 'processor' ? (failures.get('processing') ?? 0) : 0
  // If such events are discarded or in the dead-letter queue, another problem reports that.
  if (count === 0 || count * 2 < received.events || discards.has(PROCESSING_FAILED)) return []
  const what = `${id} could not process ${short(count)} of its ${counted(received.events, 'event')}`
  const todo =
    'They pass unchanged, with the reason in .processing_error and in the log (SLUICE_PROCESSOR_FAILED). Correct the processor, or decode of the source.'
  return [{ gravity: 'undecoded', component: id, what, todo }]
}

/** Advice for reasons that a component does not describe. Processors discard for these on purpose. */
const LOST_BY: Readonly<Record<string, string>> = {
  source: 'See its options in the configuration.',
  destination: 'They are lost: the destination rejected them, and on_reject is discard.',
}

/**
 * `kept`: events are in the dead-letter queue, or the readers of `.rejected` got them. `wanted`: a limit or a condition
 * did its work, or a reload gave the events back.
 */
export function fateOf(counters: ComponentCounters, reason: string): 'wanted' | 'lost' | 'kept' {
  if (reason === GIVEN_BACK) return 'wanted'
  if (areKept(counters, reason)) return 'kept'
  return counters.losses.has(reason) || counters.kind in LOST_BY ? 'lost' : 'wanted'
}

function discardProblems(counters: ComponentCounters, { wall, rates }: Observed): GradedProblem[] {
  const { id, kind, discards, losses } = counters
  return [...discards].flatMap(([reason, amount]) => {
    if (amount.events === 0 || fateOf(counters, reason) !== 'lost') return []
    const what = `${id} has discarded ${counted(amount.events, 'event')} since the daemon started: ${reason}`
    const at = rates?.grownAt(amount) ?? wall
    const gravity = wall - at > OVER_MS ? 'notice' : 'discarded'
    const detail = `The last one at ${clockTime(new Date(at).toISOString(), wall)}.`
    return [{ gravity, component: id, what, detail, todo: losses.get(reason) ?? LOST_BY[kind]! }]
  })
}
