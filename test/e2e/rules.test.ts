import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseDocument } from 'yaml'
import { checkout } from '../support/checkout.js'
import { startDaemon } from '../support/daemon.js'
import { needs } from '../support/needs.js'

const folder = join(checkout, 'config/prometheus')

interface Rules {
  groups: { rules: { alert?: string; record?: string; expr: string }[] }[]
}
const { groups } = parseDocument(readFileSync(join(folder, 'sluice.rules.yaml'), 'utf8')).toJS() as Rules
const rules = groups.flatMap(group => group.rules)

t.test('the rules for Prometheus do what their tests say', async t => {
  const promtool = needs(t, 'promtool')
  if (!promtool) return
  const run = (...args: string[]) => execFileSync(promtool, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
  t.match(run('check', 'rules', 'sluice.rules.yaml'), /SUCCESS/)
  t.match(run('test', 'rules', 'sluice.rules.test.yaml'), /SUCCESS/)
  const tested = readFileSync(join(folder, 'sluice.rules.test.yaml'), 'utf8')
  for (const { alert } of rules) if (alert) t.ok(tested.includes(`alertname: ${alert}`), `${alert} is tested`)
})

t.test('every metric of the rules is there', async t => {
  const own = t.testdir({ 'in.log': '{"app":"a"}\n{"app":"a"}\n' })
  const daemon = await startDaemon(
    t,
    own,
    `sources: { logs: { type: file, include: [in.log], decode: json } }
processors: { lim: { type: throttle, inputs: [logs], limit: 1, window: 1h } }
destinations: { up: { type: http, inputs: [lim], url: "http://127.0.0.1:9/", buffer: { type: disk, max_bytes: 10MB } } }
shutdown_timeout: 1s
`,
  )
  const scrape = await daemon.scrapedUntil(one => one.sum('sluice_delivery_retries_total') > 0)
  // Those of the service are its own tests'; errors of a source are not made here.
  const names = new Set(rules.flatMap(({ expr }) => expr.match(/\bsluice_(?!api_)\w+/g) ?? []))
  for (const name of names) {
    const there = [...scrape.series.keys()].some(series => series === name || series.startsWith(`${name}{`))
    t.ok(there || name === 'sluice_component_errors_total', `${name} is served`)
  }
})
