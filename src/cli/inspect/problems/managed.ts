import { formatDuration } from '../../../lib/units.js'
import type { DaemonView } from '../daemon-view.js'
import type { Problem } from './daemon.js'

/** A service that is restarted or updated is unreachable for less than this. */
const AWAY_S = 60

type View = Pick<DaemonView, 'managed' | 'wall'>

const ago = (seconds: number) => formatDuration(Math.max(1, Math.round(seconds)) * 1000)

/** The pipeline and revision that a managed daemon runs, and when the service last responded. */
export function managedLine({ managed, wall }: View): string | undefined {
  if (!managed) return undefined
  const { pipeline, service, revision, published, last_contact } = managed
  const runs = revision === undefined ? 'no revision runs' : `revision ${revision}`
  const newer = published !== undefined && published !== revision ? ` (${published} is published)` : ''
  const contact = last_contact === undefined ? 'no contact yet' : `last contact ${ago(wall / 1000 - last_contact)} ago`
  return `Pipeline ${pipeline}, ${runs}${newer}; ${contact} with ${service}`
}

/** Reports a revision that cannot run, and a service that cannot be reached. */
export function managedProblemsOf({ managed }: View): Problem[] {
  if (!managed) return []
  const { service, revision, refused, refusal, unreachable_seconds = 0, unreachable, report_problem } = managed
  const current = revision === undefined ? 'Nothing runs until then.' : `Revision ${revision} keeps running.`
  const problems: Problem[] = []
  if (refused !== undefined && revision !== undefined) {
    const todo = `${current} Correct the pipeline, or the local configuration and reload the daemon.`
    problems.push({ what: `revision ${refused} of the pipeline cannot run here: ${refusal}`, todo })
  }
  if (unreachable_seconds >= AWAY_S) {
    const what = `the service ${service} has not answered for ${ago(unreachable_seconds)}: ${unreachable}`
    problems.push({ what, todo: `${current} Check the network, the address of the pipeline and the access key.` })
  } else if (report_problem !== undefined && unreachable === undefined) {
    const what = `the service does not accept the reports of this daemon: ${report_problem}`
    problems.push({ what, todo: `${current} \`sluice fleet\` shows old data, or nothing.` })
  }
  return problems
}
