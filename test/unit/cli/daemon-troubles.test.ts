import t from 'tap'
import { troublesOf } from '../../../src/cli/daemon-troubles.js'
import type { DaemonView } from '../../../src/cli/daemon-view.js'
import { Scrape } from '../../../src/cli/scrape.js'

function view(destinations: DaemonView['destinations'], series: readonly string[]): DaemonView {
  const scrape = new Scrape(series.join('\n'))
  return { at: 0, scrape, ready: false, destinations, failing: [], components: [] } as unknown as DaemonView
}

const discarded = (id: string, reason: string, value: number) =>
  `sluice_component_discarded_events_total{component_id="${id}",component_kind="destination",reason="${reason}"} ${value}`

t.test('what a destination refuses is kept, or lost', async t => {
  const kept = 'sluice_dead_letter_events_total{component_id="kept",reason="status_400"} 3'
  const troubles = troublesOf(
    view([], [discarded('kept', 'status_400', 3), discarded('dropped', 'status_400', 2), kept]),
  )
  t.match(troubles, [
    {
      what: 'kept has discarded 3 events: status_400',
      todo: /kept: in data_dir\/dead-letter \(`sluice resend --dry-run`/,
    },
    { what: 'dropped has discarded 2 events: status_400', todo: /are lost, as on_reject: discard says/ },
  ])
})

t.test('nobody is told that events wait while some of them are dropped', async t => {
  const waits = [{ id: 'up', state: 'holding', reason: '401' }] as DaemonView['destinations']
  const [held] = troublesOf(view(waits, []))
  t.match(held, { what: 'up is holding: 401', todo: /^Nothing is lost: events wait/ })
  for (const state of ['holding', 'retrying']) {
    const some = [{ id: 'up', state, reason: 'no' }] as DaemonView['destinations']
    const [first, second] = troublesOf(view(some, [discarded('up', 'buffer_full', 5)]))
    t.match(first, { what: `up is ${state}: no`, todo: /what has no room in it is dropped/ })
    t.match(second, { what: 'up has discarded 5 events: buffer_full', todo: /^They are lost/ })
  }
})
