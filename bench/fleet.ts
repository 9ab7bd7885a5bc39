import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Secret } from '../src/core/options/options.js'
import { AccessKey, auth } from '../src/net/key.js'
import { linkTo } from '../src/service/fleet/service-link.js'
import { cpuSeconds } from './measure.js'
import { startService } from './service.js'

/**
 * What 500 daemons cost the service that ask for their pipeline and report as often as daemons do, while nothing
 * changes. As a program it prints one JSON document.
 */

export interface FleetResult {
  readonly daemons: number
  readonly seconds: number
  readonly requests: number
  readonly cpu_share: number
  readonly wanted: number
}

const DAEMONS = 500
const POLL_MS = 10_000
const REPORT_MS = 60_000
const SECONDS = 30
const ROUNDS_BEFORE = 10
const WANTED = 0.05

export async function measureFleet(folder: string): Promise<FleetResult> {
  const served = await startService(folder)
  const { url, made, call, pid } = served
  try {
    const { key } = made.service_account
    const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
    const { id } = await call('POST', '/v3/pipeline', key, { title: 'bench', config })
    await call('POST', `/v3/pipeline/${id}/publish`, key, {})
    let requests = 0
    const daemons = Array.from({ length: DAEMONS }, (_, i) => {
      const own = new AccessKey({ ...auth.parse({ key }), key: new Secret(key) }, undefined as never)
      const link = linkTo({ base: url, id }, own, undefined)
      const about = { host: `host-${i}`, version: '0', health: 'ready' as const, error: null }
      const started_at = new Date().toISOString()
      const totals = { received: i, delivered: i, discarded: 0, undelivered: 0 }
      let etag: string | undefined
      return {
        async poll() {
          requests++
          etag = (await link.published(etag))?.etag ?? etag
        },
        async report() {
          requests++
          await link.report({ ...about, daemon_id: `daemon-${i}`, revision: 1, started_at, totals })
        },
      }
    })
    // A service runs for months: what compiling its code costs in the first minute is not what is asked for.
    for (let round = 0; round < ROUNDS_BEFORE; round++) {
      for (const daemon of daemons) await Promise.all([daemon.poll(), daemon.report()])
    }
    requests = 0
    const spent = cpuSeconds(pid)
    const began = performance.now()
    const timers: NodeJS.Timeout[] = []
    const failed: unknown[] = []
    daemons.forEach((daemon, i) => {
      const repeat = (what: () => Promise<void>, everyMs: number) => {
        const go = () => void what().catch(error => failed.push(error))
        const begin = () => {
          go()
          timers.push(setInterval(go, everyMs))
        }
        timers.push(setTimeout(begin, (i / DAEMONS) * everyMs))
      }
      repeat(() => daemon.poll(), POLL_MS)
      repeat(() => daemon.report(), REPORT_MS)
    })
    await new Promise(resolve => setTimeout(resolve, SECONDS * 1000))
    for (const timer of timers) clearInterval(timer)
    if (failed.length > 0) throw failed[0]
    const seconds = (performance.now() - began) / 1000
    const share = (cpuSeconds(pid) - spent) / seconds
    return { daemons: DAEMONS, seconds: SECONDS, requests, cpu_share: Number(share.toFixed(4)), wanted: WANTED }
  } finally {
    served.stop()
  }
}

export function formatFleet({ daemons, seconds, requests, cpu_share: share, wanted }: FleetResult): string {
  const missed = share > wanted ? ' (missed)' : ''
  return `${daemons} daemons that poll and report, ${requests} requests in ${seconds} s: ${(share * 100).toFixed(1)} % of a core${missed} (at most ${wanted * 100} %)\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { folder: { type: 'string', default: tmpdir() } } })
  process.stdout.write(`${JSON.stringify(await measureFleet(values.folder))}\n`)
}
