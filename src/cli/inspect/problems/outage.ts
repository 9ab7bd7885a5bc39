import { clockTime, counted, type DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** Servers that processors need, and that do not reply; processors that do not finish with events. */
export function outageProblems({ outages, wall }: Pick<DaemonView, 'outages' | 'wall'>): Problem[] {
  return outages.map(({ id, isStuck, reason, since, attempts, next_attempt, meanwhile }) => {
    if (isStuck)
      return {
        what: `${id} is stuck: ${reason}`,
        detail: `Since ${clockTime(since, wall)}. Meanwhile ${meanwhile}.`,
        todo: 'Correct the plugin so that each call of process ends, and reload; or restart the daemon.',
      }
    const next = next_attempt === undefined ? 'trying now' : `next attempt at ${clockTime(next_attempt, wall)}`
    return {
      what: `${id} cannot ask the server of its cluster limit: ${reason}`,
      detail: `Since ${clockTime(since, wall)}, ${counted(attempts, 'failure')}, ${next}. Meanwhile ${meanwhile}.`,
      todo: 'Check the server, the network and the options of redis. It is asked again by itself.',
    }
  })
}
