import { once } from 'node:events'
import { built, median } from './measure.js'
import { RunningDaemon } from './running.js'
import { workFolder } from './work.js'

interface Held {
  readonly first: number
  readonly median: number
  readonly worst: number
  readonly median_by_clock: number
}

const COMPONENTS = 1_000
const SCRAPES = 30
/** For the events to pass: a scrape that waits for them would be the first one. */
const SETTLE_MS = 5000
const PERIOD_MS = 150
const OPENMETRICS = 'application/openmetrics-text; version=1.0.0'
const WAYS: Readonly<Record<string, Record<string, string>>> = {
  text: { accept: 'text/plain', 'accept-encoding': 'identity' },
  'text, gzip': { accept: 'text/plain', 'accept-encoding': 'gzip' },
  'OpenMetrics, gzip': { accept: OPENMETRICS, 'accept-encoding': 'gzip' },
}

/**
 * What a scrape of many series costs the daemon: the longest that it held the event loop up while its thread had a core,
 * and by the clock, and the CPU time.
 */
export async function measureScrape(folder: string) {
  const throttles = Array.from(
    { length: COMPONENTS },
    (_, i) => `  limit_${i}: { type: throttle, inputs: [lines], limit: ${i + 1}, window: 1h, key_field: .app }\n`,
  )
  const daemon = new RunningDaemon(
    workFolder(folder, 'scrape'),
    `sources: { lines: { type: stdin, decode: json } }
processors:
${throttles.join('')}destinations: { nowhere: { type: blackhole, inputs: [${throttles.map((_, i) => `limit_${i}`).join(', ')}] } }
`,
    { imports: [built('./loop-probe.js')], stdin: true },
  )
  try {
    const url = await daemon.url()
    daemon.stdin.write('{"app":"a"}\n'.repeat(100))
    await new Promise(resolve => setTimeout(resolve, SETTLE_MS))
    const held: Record<string, Held> = {}
    const cpu: Record<string, number> = {}
    for (const [way, headers] of Object.entries(WAYS)) {
      const longest: { clock: number; core: number }[] = []
      for (let i = 0; i < SCRAPES; i++) {
        daemon.child.send('watch')
        await scrape(url, headers)
        daemon.child.send('tell')
        const [ms] = (await once(daemon.child, 'message')) as [(typeof longest)[number]]
        longest.push(ms)
      }
      const [core, clock] = [longest.map(ms => ms.core), longest.map(ms => ms.clock)]
      held[way] = {
        first: round(core[0]!),
        median: round(median(core)),
        worst: round(Math.max(...core)),
        median_by_clock: round(median(clock)),
      }
      const before = daemon.cpuSeconds()
      const began = performance.now()
      for (let i = 1; i <= SCRAPES; i++) {
        await scrape(url, headers)
        await new Promise(resolve => setTimeout(resolve, Math.max(0, began + i * PERIOD_MS - performance.now())))
      }
      cpu[way] = round(((daemon.cpuSeconds() - before) / SCRAPES) * 1000)
    }
    const text = await (await fetch(url)).text()
    const series = text.split('\n').filter(line => line !== '' && !line.startsWith('#')).length
    return { series, bytes: text.length, held_up_ms: held, cpu_ms: cpu }
  } finally {
    await daemon.stop()
  }
}

async function scrape(url: string, headers: Record<string, string>): Promise<void> {
  const answer = await fetch(url, { headers })
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`a scrape was answered by ${answer.status}`)
}

function round(ms: number): number {
  return Number(ms.toFixed(1))
}
