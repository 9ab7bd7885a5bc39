import { appendFileSync, mkdirSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { programOptions } from '../test/support/program-options.js'
import { RunningDaemon } from './running.js'
import { drawPicture } from './soak-picture.js'
import { showOnTerminal, workFolder } from './work.js'

/** `npm run bench soak`: hours of a busy machine in small: files that rotate, a receiver that fails now and then. */

const USAGE = `Usage: npm run bench soak -- [options]

  --minutes N    how long (default: 30)
  --rate N       lines a second, over all files (default: 5000)
  --rotate N     seconds between two rotations (default: 20)
  --kill N       seconds between two times that the daemon is killed with SIGKILL (default: never)
  --out FILE     the picture (default: soak.svg)
`
const FILES = 4
const TICK_MS = 100
const SAMPLE_MS = 5000
/** Rotated files that stay: enough for the longest outage. */
const KEPT = 12
/** In each period of so many seconds, the receiver fails for the last ones of it. */
const OUTAGES = [
  { everyS: 300, forS: 40, status: 503 },
  { everyS: 420, forS: 15, status: 401 },
]

export interface Sample {
  readonly seconds: number
  readonly rssBytes: number
  readonly descriptors: number
  readonly loopDelayMs: number
  readonly unreadBytes: number
}

/** Takes lines in order per file; knows what is missing, comes twice, or was never written. */
class Receiver {
  readonly next = new Array<number>(FILES).fill(0)
  repeated = 0
  gaps = 0
  status = 202

  take(body: string): void {
    for (const line of body.split('\n')) {
      const match = /^\{"f":(\d+),"n":(\d+),/.exec(line)
      if (!match) continue
      const [file, n] = [Number(match[1]), Number(match[2])]
      const expected = this.next[file]!
      if (n < expected) this.repeated++
      else {
        if (n > expected) this.gaps++
        this.next[file] = n + 1
      }
    }
  }
}

async function main(): Promise<number> {
  const defaults = { minutes: 30, rate: 5000, rotate: 20, kill: Number.POSITIVE_INFINITY, out: 'soak.svg' }
  const { minutes, rate, rotate, kill, out } = programOptions(defaults, USAGE).options
  const seconds = minutes * 60
  const perTick = Math.max(1, Math.round((rate * TICK_MS) / 1000 / FILES))
  if (!(seconds > 0) || !(perTick > 0)) throw new Error(USAGE)
  const folder = workFolder(tmpdir(), 'soak')
  const receiver = new Receiver()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      if (receiver.status === 202) receiver.take(Buffer.concat(chunks).toString())
      response.writeHead(receiver.status).end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const soaked: Soaked = { daemon: prepare(folder, port), kills: 0 }
  try {
    await soaked.daemon.url()
    const { written, samples } = await run(folder, receiver, soaked, { seconds, perTick, rotate, kill })
    receiver.status = 202
    const total = () => receiver.next.reduce((sum, n) => sum + n, 0)
    for (const end = Date.now() + 120_000; total() < written && Date.now() < end; ) await wait(200)
    const code = await soaked.daemon.stop()
    writeFileSync(out, drawPicture(samples))
    const summary = {
      seconds,
      written,
      delivered: total(),
      repeated: receiver.repeated,
      gaps: receiver.gaps,
      kills: soaked.kills,
      exit: code,
    }
    process.stdout.write(`${JSON.stringify({ ...summary, ...spread(samples) }, null, 2)}\n${out}\n`)
    return total() === written && receiver.gaps === 0 && code === 0 ? 0 : 1
  } finally {
    await soaked.daemon.stop()
    server.close()
    server.closeAllConnections()
  }
}

/** The daemon that runs now, and how many before it were killed. */
interface Soaked {
  daemon: RunningDaemon
  kills: number
}

interface Pace {
  readonly seconds: number
  readonly perTick: number
  /** Seconds between two of them, each. */
  readonly rotate: number
  readonly kill: number
}

function prepare(folder: string, port: number): RunningDaemon {
  mkdirSync(join(folder, 'logs'))
  writeFileSync(join(folder, 'key'), 'soak-key\n', { mode: 0o600 })
  const config = `sources:
  logs: { type: file, include: [${JSON.stringify(join(folder, 'logs', '*.log'))}], decode: json }
processors:
  limit: { type: throttle, inputs: [logs], limit: 1000000, window: 1s, key_field: .app }
destinations:
  out:
    type: http
    inputs: [limit]
    url: http://127.0.0.1:${port}/
    auth: { key_file: ${JSON.stringify(join(folder, 'key'))} }
    max_in_flight: 1
    retry: { initial: 200ms, max: 2s }
`
  return new RunningDaemon(folder, config)
}

async function run(folder: string, receiver: Receiver, soaked: Soaked, { seconds, perTick, rotate, kill }: Pace) {
  const samples: Sample[] = []
  const next = new Array<number>(FILES).fill(0)
  const rest = 'x'.repeat(120)
  const began = Date.now()
  let rotateAt = rotate * 1000
  let killAt = kill * 1000
  let sampleAt = 0
  let round = 0
  for (let tick = 1; Date.now() - began < seconds * 1000; tick++) {
    const elapsed = Date.now() - began
    receiver.status = statusAt(elapsed / 1000)
    for (let file = 0; file < FILES; file++) {
      let text = ''
      for (let i = 0; i < perTick; i++)
        text += `{"f":${file},"n":${next[file]!++},"app":"app-${i % 40}","rest":"${rest}"}\n`
      appendFileSync(join(folder, 'logs', `${file}.log`), text)
    }
    if (elapsed >= rotateAt) {
      rotateAt += rotate * 1000
      rotateAll(join(folder, 'logs'), round++)
    }
    if (elapsed >= killAt) {
      killAt += kill * 1000
      soaked.kills++
      await soaked.daemon.stop('SIGKILL')
      soaked.daemon = new RunningDaemon(folder)
    }
    if (elapsed >= sampleAt) {
      sampleAt += SAMPLE_MS
      samples.push(await sample(soaked.daemon, elapsed / 1000))
      showOnTerminal(`${Math.round(elapsed / 1000)} of ${seconds} s`)
    }
    await wait(Math.max(0, began + tick * TICK_MS - Date.now()))
  }
  return { samples, written: next.reduce((sum, n) => sum + n, 0) }
}

function statusAt(second: number): number {
  for (const { everyS, forS, status } of OUTAGES) if (second % everyS >= everyS - forS) return status
  return 202
}

function rotateAll(logs: string, round: number): void {
  for (let file = 0; file < FILES; file++) {
    renameSync(join(logs, `${file}.log`), join(logs, `${file}.log.${round}`))
    if (round >= KEPT) unlinkSync(join(logs, `${file}.log.${round - KEPT}`))
  }
}

async function sample(daemon: RunningDaemon, seconds: number): Promise<Sample> {
  const scrape = await daemon.scrape()
  return {
    seconds,
    rssBytes: scrape.sum('process_resident_memory_bytes'),
    descriptors: scrape.sum('process_open_fds'),
    loopDelayMs: scrape.sum('nodejs_eventloop_lag_p99_seconds') * 1000,
    unreadBytes: scrape.sum('sluice_file_unread_bytes'),
  }
}

/** How far the figures of the second half are from those of the first: what leaks grows. */
function spread(samples: readonly Sample[]) {
  const half = samples.length >> 1
  const most = (part: readonly Sample[], of: (s: Sample) => number) => part.reduce((max, s) => Math.max(max, of(s)), 0)
  const both = (of: (s: Sample) => number) => [most(samples.slice(0, half), of), most(samples.slice(half), of)]
  return {
    max_rss_mb_by_half: both(s => Math.round(s.rssBytes / 1e6)),
    max_descriptors_by_half: both(s => s.descriptors),
    max_loop_delay_p99_ms_by_half: both(s => Math.round(s.loopDelayMs)),
    max_unread_mb_by_half: both(s => Math.round(s.unreadBytes / 1e6)),
  }
}

process.exitCode = await main()
