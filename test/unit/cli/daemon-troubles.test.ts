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

t.test('certificates that expire, and refused clients', async t => {
  const at = (days: number) => days * 86_400
  const expiry = (id: string, days: number) =>
    `sluice_tls_certificate_expiry_timestamp_seconds{component_id="${id}",option="cert_file",file="/${id}.pem"} ${at(days)}`
  const refused = (reason: string, total: number, age: number) => [
    `sluice_tls_refused_connections_total{component_id="in",reason="${reason}"} ${total}`,
    `sluice_tls_last_refusal_age_seconds{component_id="in",reason="${reason}"} ${age}`,
  ]
  const series = [expiry('good', 20), expiry('soon', 13), expiry('late', 9)]
  const clients = [...refused('no_certificate', 3, 70), ...refused('closed', 9, 1), ...refused('version', 2, 4000)]
  const troubles = troublesOf({ ...view([], [...series, ...clients]), wall: at(10) * 1000 })
  t.match(troubles, [
    {
      what: 'soon: the certificate in tls.cert_file (/soon.pem) expires on 1970-01-14',
      todo: /^Renew the certificate/,
    },
    { what: 'late: the certificate in tls.cert_file (/late.pem) expired on 1970-01-10' },
    { what: 'in refused 3 TLS connections (no_certificate), the last one 1m 10s ago', todo: /SLUICE_TLS_REFUSED/ },
  ])
  t.equal(troubles.length, 3)
})
