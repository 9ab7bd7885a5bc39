import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { type Receiver, startReceiver } from '../support/receiver.js'

const SECONDS = 600
const LIMIT = 5

/** Lines of the last ten minutes, `LIMIT` a second of each app in both files together: never more. */
function backlog(now: number): { readonly dense: string[]; readonly sparse: string[] } {
  const line = (file: string, n: number, app: string, ms: number) =>
    JSON.stringify({ ts: new Date(now - SECONDS * 1000 + ms).toISOString(), app, file, n })
  const dense = Array.from({ length: SECONDS * 4 * 3 }, (_, n) =>
    line('dense', n, `app-${n % 3}`, Math.floor(n / 3) * 250),
  )
  const sparse = Array.from({ length: SECONDS }, (_, n) => line('sparse', n, 'app-0', n * 1000 + 100))
  return { dense, sparse }
}

t.test('a backlog within the limit passes a throttle in event time, and one on the clock discards it', async t => {
  const folder = testFolder(t, { logs: {} })
  const port = await ownPort()
  const url = `http://${HOST}:${port}`
  const limit = `type: throttle, inputs: [logs], limit: ${LIMIT}, window: 1 Seconds, key_field: .app`
  const delivery = 'retry: { initial: 50ms, max: 200ms }, batch: { max_wait: 20ms }'
  const daemon = await startDaemon(
    t,
    folder,
    `
sources: { logs: { type: file, include: [logs/*.log], decode: json } }
processors:
  event_time: { ${limit}, time_field: .ts }
  clock: { ${limit} }
destinations:
  by_event_time: { type: http, inputs: [event_time], url: "${url}/event-time", ${delivery} }
  by_clock: { type: http, inputs: [clock], url: "${url}/clock", ${delivery} }
`,
  )
  // Nobody listens while ten minutes are written, and afterwards all of it is to be delivered at once.
  const written = backlog(Date.now())
  appendFileSync(join(folder, 'logs/dense.log'), `${written.dense.join('\n')}\n`)
  appendFileSync(join(folder, 'logs/sparse.log'), `${written.sparse.join('\n')}\n`)
  const lines = [...written.dense, ...written.sparse]
  await daemon.scrapedUntil(
    scrape => scrape.sum('sluice_component_in_flight_events', { component_id: 'by_event_time' }) > 0,
  )
  const receiver: Receiver = await startReceiver({ port })
  t.teardown(() => receiver.close())
  const decided = (decision: string, component_id: string, scrape: Awaited<ReturnType<typeof daemon.scrape>>) =>
    scrape.sum('sluice_throttle_events_total', { component_id, decision })
  /** What is counted when all lines have gone as far as they go. */
  const settled = (events: number) =>
    daemon.scrapedUntil(scrape =>
      ['event_time', 'clock'].every(id => {
        const [{ sent, discarded }, destination] = [scrape.events(id), scrape.events(`by_${id}`)]
        return sent + discarded === events && destination.sent === sent
      }),
    )
  const scrape = await settled(lines.length)
  scrape.conserves(t)
  const delivered = (path: string) =>
    receiver.requests
      .filter(({ path: to, status }) => to === path && status === 200)
      .flatMap(({ body }) => body.split('\n').filter(Boolean))
  t.equal(scrape.events('event_time').discarded, 0, 'in event time nothing is discarded')
  for (const decision of ['late', 'fail_open', 'discarded'])
    t.equal(decided(decision, 'event_time', scrape), 0, decision)
  t.equal(scrape.sum('sluice_throttle_untimed_events_total'), 0)
  t.same(delivered('/event-time').sort(), [...lines].sort(), 'all of it arrives')
  const clock = scrape.events('clock')
  t.ok(clock.discarded > lines.length / 2, `on the clock most is: ${clock.discarded} of ${lines.length}`)
  t.equal(delivered('/clock').length, lines.length - clock.discarded)

  // The limit holds all the same, for what is written now.
  const ts = new Date().toISOString()
  const burst = Array.from({ length: 4 * LIMIT }, (_, n) => JSON.stringify({ ts, app: 'app-9', n }))
  appendFileSync(join(folder, 'logs/dense.log'), `${burst.join('\n')}\n`)
  const after = await settled(lines.length + burst.length)
  t.equal(decided('discarded', 'event_time', after), 3 * LIMIT)
  t.same(delivered('/event-time').slice(lines.length), burst.slice(0, LIMIT))
  const totals = await daemon.stop(t)
  t.equal(totals.undelivered, 0)
})
