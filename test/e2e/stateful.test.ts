import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HOST } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

/** Processors that keep events between batches, in a daemon that is reloaded and killed. */

const config = (more = '', key = '.id') => `sources: { app: { type: file, include: [in.log], decode: json } }
processors:
  requests: { type: reduce, inputs: [app], key_field: ${key}, timeout: 1h, merge: { .n: sum }, ends_when: "if (.end equal 'true')" }
  rates: { type: aggregate, inputs: [app], every: 1h, counters: { lines: {}, sum: { sum: .n } } }
destinations:
  out: { type: file, inputs: [requests], path: out.log }
  rates_out: { type: file, inputs: [rates], path: rates.log }
${more}`

const lines = (...events: object[]) => events.map(event => `${JSON.stringify(event)}\n`).join('')
const read = (path: string) =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line) as Record<string, unknown>)
    : []

t.test('open groups and intervals survive a reload and a kill, and nothing counts twice', async t => {
  const folder = testFolder(t, { 'in.log': '' })
  const write = (...events: object[]) => appendFileSync(join(folder, 'in.log'), lines(...events))
  const out = () => read(join(folder, 'out.log'))
  let daemon = await startDaemon(t, folder, config())
  const taken = (events: number) =>
    daemon.scrapedUntil(
      scrape => scrape.sum('sluice_component_received_events_total', { component_id: 'rates' }) === events,
    )
  write({ id: 1, n: 1 }, { id: 2, n: 5 })
  await taken(2)

  const head = `data_dir: ${join(folder, 'state')}\nmetrics: { listen: ${HOST}:0 }\n`
  const reload = async (text: string) => {
    const before = daemon.logs().length
    writeFileSync(daemon.configPath, head + text)
    daemon.child.kill('SIGHUP')
    const about = () =>
      daemon
        .logs()
        .slice(before)
        .find(({ msg }) => /^(configuration reloaded|cannot apply)/.test(String(msg)))
    t.match(await daemon.until(about), { msg: 'configuration reloaded' })
  }
  await reload(config('  none: { type: blackhole, inputs: [app] }\n'))
  t.same(out(), [], 'a reload ends no group')
  write({ id: 1, n: 2, end: true }, { id: 2, n: 7 })
  await daemon.until(() => out().length === 1)
  t.same(out(), [{ id: 1, n: 3, end: true }])
  await taken(4)

  daemon.child.kill('SIGKILL')
  await daemon.exit
  daemon = await startDaemon(t, folder, config())
  write({ id: 2, n: 100, end: true })
  await daemon.until(() => out().some(({ id }) => id === 2))
  t.same(
    out().find(({ id }) => id === 2),
    { id: 2, n: 112, end: true },
    'it is read again from its first event',
  )
  await taken(5)

  await reload(config('', '.other'))
  t.match(read(join(folder, 'rates.log')), [], 'the interval of the processor that did not change goes on')
  await daemon.stop(t)
  t.match(read(join(folder, 'rates.log')), [{ key: null, lines: 5, sum: 115 }])
})
