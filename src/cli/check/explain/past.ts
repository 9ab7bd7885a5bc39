import type { Fields } from '../../../core/event/event-fields.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { systemClock } from '../../../lib/time.js'
import { clockTime } from '../../../lib/units.js'
import type { EventStep, FoundEvent, FoundEvents, LookedAt } from '../../../page/server/watch/find.js'

/** Earlier events with the same fields. A daemon with a status page keeps events for some minutes. */
export interface Past {
  /** The newest event first. Each event has its steps. */
  readonly events: readonly FoundEvent[]
  readonly more: boolean
  readonly looked_at: readonly LookedAt[]
}

/** Asks a daemon for events that have these fields. Undefined if the daemon has no status page. */
export type AskPast = (dataDir: string, fields: Fields) => Promise<FoundEvents | undefined>

/** Maximum versions of the event to search for. The page may have kept a version that components had changed. */
const MOST_VERSIONS = 5
/** Maximum length of an event as JSON. Longer events cannot be found, because the page cuts them. */
const LONGEST = 4096
const SHOWN = 3

/** `versions`: the event as it was read, and as components changed it. Undefined if the daemon keeps no events. */
export async function pastOf(
  versions: readonly Fields[],
  ask: (fields: Fields) => Promise<FoundEvents | undefined>,
): Promise<Past | undefined> {
  const distinct = new Map(versions.map(fields => [jsonText(fields), fields]))
  let past: Past | undefined
  for (const [text, fields] of [...distinct].slice(0, MOST_VERSIONS)) {
    if (Object.keys(fields).length === 0 || text.length > LONGEST) continue
    const finding = await ask(fields)
    if (!finding) return undefined
    const { found, more, looked_at } = finding
    past = { events: found, more, looked_at }
    if (found.length > 0) break
  }
  return past
}

/** Lines such as `then: at 14:03:12 app read it; limit_app discarded it (throttled: Beyond limit; bucket cart)`. */
export function pastLines({ events, more, looked_at }: Past): string[] {
  if (events.length === 0) return [`then: the daemon has not kept an event like this one; ${keptText(looked_at)}`]
  const lines = events.slice(0, SHOWN).map(({ steps }) => `then: ${stepsText(steps)}`)
  const rest = events.length - SHOWN
  return rest > 0 ? [...lines, `then: ${rest}${more ? ' or more' : ''} older events like this one`] : lines
}

/** Tells that the decision is about now, although earlier events of the bucket were discarded. `hasPage`: see AskPast. */
export const nowLine = (hasPage: boolean): string =>
  `now: what follows is decided for now; why earlier events were discarded is ${hasPage ? 'not known any more' : 'known only with a status_page'}`

/** Omits a time that equals the time of the previous step. */
function stepsText(steps: readonly EventStep[]): string {
  const times = steps.map(({ at }) => timeOf(at))
  return steps.map((step, i) => `${times[i] === times[i - 1] ? '' : `at ${times[i]} `}${stepText(step)}`).join('; ')
}

function stepText({ component, what, reason, words, rule, bucket }: EventStep): string {
  const why = [
    reason === undefined ? '' : `${reason}: ${words?.replace(/\.$/, '')}`,
    rule === undefined ? '' : `rule ${rule}`,
    bucket === undefined ? '' : `bucket ${bucket ?? '(default)'}`,
  ].filter(text => text !== '')
  // If a destination reports `passed`, it has received the event, but may not have delivered the event yet.
  const done = what === 'passed' ? 'received' : what
  return `${component} ${done} it${why.length === 0 ? '' : ` (${why.join('; ')})`}`
}

const timeOf = (at: string) => clockTime(at, systemClock.wall())

function keptText(looked_at: readonly LookedAt[]): string {
  const parts = looked_at.map(({ kind, from, one_in }) => {
    const sample = one_in > 1 ? `, one in ${one_in}` : ''
    return from === null ? `no ${kind} events` : `${kind} events since ${timeOf(from)}${sample}`
  })
  return `it keeps ${parts.join('; ')}`
}
