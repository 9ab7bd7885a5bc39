import { formatDuration } from '../../../lib/units.js'
import { clockTime, type DaemonView, type DestinationView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** Destinations that do not deliver, with the course of their outage. */
export function destinationProblems({ scrape, destinations, wall }: DaemonView): Problem[] {
  const isSafe = scrape.sum('sluice_file_deleted_undelivered_bytes') === 0
  return destinations
    .filter(({ state }) => state !== 'ready' && state !== 'stopped')
    .map(destination => {
      const { id, state, reason } = destination
      const labels = { component_id: id, reason: 'buffer_full' }
      const drops = scrape.sum('sluice_component_discarded_events_total', labels) > 0
      const detail = detailOf(destination, wall)
      return {
        what: reason === undefined ? `${id} is ${state}` : `${id} is ${state}: ${reason}`,
        ...(detail !== '' && { detail }),
        todo: adviceFor(state, drops).replace(SAFE, isSafe ? SAFE : 'No events are lost while the daemon runs.'),
      }
    })
}

const SAFE = 'No events are lost.'

function adviceFor(state: string, drops: boolean): string {
  if (drops) return 'Its buffer is full or was full, and events that found no room were dropped. Correct the cause.'
  switch (state) {
    case 'refusing':
      return 'Most requests are rejected, and their events go where on_reject says. Correct the receiver or the events.'
    case 'retrying':
    case 'failing':
      return 'No events are lost. Check what the error names: the receiver, the network or the disk.'
    case 'starting':
      return 'No events are lost. Delivery begins when the destination has been checked.'
    default:
      return 'No events are lost. Delivery resumes by itself when the cause is corrected.'
  }
}

/** As in: Since 14:01:07 (2m 5s), 12 failed attempts, the last at 14:03:12, the next in 8s. */
function detailOf({ since, failures = 0, last_failure, next_attempt, oldest_event }: DestinationView, wall: number) {
  const sentences: string[] = []
  const ago = (time: string) => lasting(wall - Date.parse(time))
  if (since !== undefined) {
    const parts = [
      `Since ${clockTime(since, wall)} (${ago(since)}), ${failures} failed attempt${failures === 1 ? '' : 's'}`,
    ]
    if (last_failure !== undefined && failures > 1) parts.push(`the last at ${clockTime(last_failure, wall)}`)
    if (next_attempt !== undefined) parts.push(nextIn(Date.parse(next_attempt) - wall))
    sentences.push(`${parts.join(', ')}.`)
  }
  if (oldest_event !== undefined) sentences.push(`The oldest waiting event is ${ago(oldest_event)} old.`)
  return sentences.join(' ')
}

/** The last outage of each destination that delivers again. */
export function pastOutages({ destinations, wall }: Pick<DaemonView, 'destinations' | 'wall'>): string[] {
  return destinations.flatMap(({ id, state, last_outage: outage }) => {
    if (state !== 'ready' || outage === undefined) return []
    const { since, until, failures, error } = outage
    const lasted = lasting(Date.parse(until) - Date.parse(since))
    const attempts = `${failures} failed attempt${failures === 1 ? '' : 's'}`
    return [`${id}: ${clockTime(since, wall)} to ${clockTime(until, wall)} (${lasted}), ${attempts}: ${error}`]
  })
}

function nextIn(ms: number): string {
  return ms < 1000 ? 'the next one now' : `the next in ${lasting(ms)}`
}

function lasting(ms: number): string {
  return formatDuration(Math.max(1, Math.round(ms / 1000)) * 1000)
}
