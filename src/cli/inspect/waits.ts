import type { WaitState } from '../../core/component.js'
import { textOf } from '../../daemon/admin/ask-socket.js'
import { wrap } from '../../daemon/process/wrap.js'
import { printable } from '../../lib/printable.js'
import { formatDuration } from '../../lib/units.js'
import { ask } from './daemon-socket.js'
import type { DaemonView } from './daemon-view.js'
import type { Scrape } from './scrape.js'

/** The events that wait in a component. */
export interface Waits extends WaitState {
  readonly id: string
  readonly events: number
}

const MOST_COMPONENTS = 20
const SHOWN_BUCKETS = 3

/** Asks a daemon what events wait for. */
export async function waitsIn(socket: string, scrape: Scrape): Promise<Waits[]> {
  const some = scrape.all('sluice_component_waiting_events').filter(({ value }) => value > 0)
  const found = some.slice(0, MOST_COMPONENTS).map(async ({ labels, value }) => {
    const id = labels.component_id!
    const answer = await ask(socket, `/waiting?${new URLSearchParams({ component: id })}`)
    const text = await textOf(answer)
    // They may have left by now.
    return answer.statusCode === 200 ? [{ id, events: value, ...(JSON.parse(text) as WaitState) }] : []
  })
  return (await Promise.all(found)).flat()
}

/** As in: limit_app: 812 events wait for room (on_backlog: pace, for 1h 0m at most); 800 of checkout, since 2m 5s ago */
export function waitLines({ waiting, wall }: Pick<DaemonView, 'waiting' | 'wall'>, width: number): string[] {
  const lines = waiting.map(({ id, events, options, buckets }) => {
    const shown = buckets.slice(0, SHOWN_BUCKETS).map(({ key, events, since }) => {
      const ago = formatDuration(Math.max(1, Math.round((wall - Date.parse(since)) / 1000)) * 1000)
      return `${events} of ${key ?? 'the default bucket'} for ${ago}`
    })
    const more = buckets.length > SHOWN_BUCKETS ? ['and others'] : []
    const what = `${id}: ${events} ${events === 1 ? 'event waits' : 'events wait'} for room`
    return `${what} (${options.join('; ')}): ${[...shown, ...more].join(', ')}`
  })
  return lines.length === 0 ? [] : ['', ...lines.flatMap(line => wrap(printable(line), width, '  '))]
}
