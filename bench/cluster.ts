import { spawn, spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { APPS, type Input, makeInput } from './input.js'
import { freePort, type Measured, measure, median, RUN } from './measure.js'
import { workFolder } from './work.js'

/** How many events a second one daemon decides on with a limit that it shares, by a Redis server on loopback. */

interface Decided {
  /** Of the whole run, by the clock, and by the CPU time of the daemon. */
  readonly perSecond: number
  readonly perCpuSecond: number
  /** Round trips to the server. */
  readonly requests: number
}

const WAYS: Readonly<Record<string, string>> = {
  leased: 'accuracy: leased',
  exact: 'accuracy: exact',
  'leased, bytes and events': 'accuracy: leased, limit_bytes: 1TB',
  'leased, rules by key': `accuracy: leased, limits: [{ key: 'app-00*', limit: 1000000 }, { key: 'app-0*', limit: 2000000 }]`,
  'in one daemon': '',
}

/** Starts a Redis server that keeps nothing; the result ends it. */
async function startServer(folder: string, port: number): Promise<() => void> {
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', options, { stdio: 'ignore' })
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  while (!(await answers(port))) await sleep(50)
  return () => {
    process.removeListener('exit', kill)
    kill()
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

/** All lines of an app pass, so that no event is decided without a unit. */
async function run(input: Input, folder: string, more: string, port: number): Promise<Measured & { requests: number }> {
  const config = join(folder, 'sluice.yaml')
  const shared = `scope: cluster, redis: { url: "redis://127.0.0.1:${port}", timeout: 10s }, expected_members: 1`
  const limit = Math.max(1000, Math.ceil((input.lines / APPS) * 20))
  const metrics = await freePort()
  let requests = 0
  writeFileSync(
    config,
    `data_dir: ${JSON.stringify(join(folder, 'state'))}
metrics: { listen: 127.0.0.1:${metrics} }
sources: { lines: { type: file, include: [${JSON.stringify(input.path)}], decode: json, follow: false } }
processors: { limit_app: { type: throttle, inputs: [lines], limit: ${limit}, window: 1 Hours, key_field: .app${more && `, ${more}, ${shared}`} } }
destinations: { none: { type: blackhole, inputs: [limit_app] } }
`,
  )
  try {
    const measured = await measure([...RUN, config], async child => {
      while (child.exitCode === null) {
        requests = (await scraped(metrics)) ?? requests
        await sleep(50)
      }
    })
    return { ...measured, requests }
  } finally {
    rmSync(join(folder, 'state'), { recursive: true, force: true })
  }
}

async function scraped(port: number): Promise<number | undefined> {
  try {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    const found = /^sluice_throttle_backend_requests_total\S* (\d+)$/m.exec(text)
    return found ? Number(found[1]) : undefined
  } catch {
    return undefined
  }
}

/** Undefined: there is no redis-server. `progress` is told what is going on. */
export async function measureCluster(folder: string, lines: number, runs: number, progress: (text: string) => void) {
  if (spawnSync('redis-server', ['--version']).error) return undefined
  const work = workFolder(folder, 'cluster')
  const input = makeInput(work, lines, progress)
  const ways: Record<string, Decided> = {}
  for (const [way, more] of Object.entries(WAYS)) {
    const all: Decided[] = []
    for (let n = 0; n < runs; n++) {
      progress(`run ${n + 1} of ${runs}: ${way}`)
      // An empty server for each run, since a limit is used up once.
      const port = await freePort()
      const end = await startServer(work, port)
      try {
        const { seconds, cpuSeconds, requests } = await run(input, work, more, port)
        all.push({ perSecond: lines / seconds, perCpuSecond: lines / cpuSeconds, requests })
      } finally {
        end()
      }
    }
    const middle = (of: (one: Decided) => number) => Math.round(median(all.map(of)))
    ways[way] = {
      perSecond: middle(one => one.perSecond),
      perCpuSecond: middle(one => one.perCpuSecond),
      requests: middle(one => one.requests),
    }
  }
  return { lines, runs, ways }
}
