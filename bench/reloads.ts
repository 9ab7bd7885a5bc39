import { once } from 'node:events'
import { appendFileSync, mkdirSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { programOptions } from '../test/support/program-options.js'
import { Seeded } from '../test/support/seeded.js'
import type { Left } from './leak-probe.js'
import { growth, leaks } from './leaks.js'
import { built, freePort, median } from './measure.js'
import { OUTPUTS, type Places, plainConfig, randomConfig, wrongConfig } from './reloads-configs.js'
import { RunningDaemon } from './running.js'
import { showOnTerminal, workFolder } from './work.js'

/** `npm run bench reloads`: random reloads under load; nothing is lost, nothing is repeated, nothing is left behind. */

const USAGE = `Usage: npm run bench reloads -- [options]

  --count N      reloads, besides those to warm up (default: 200)
  --rate N       events a second, over a file, standard input and a TCP connection (default: 200000)
  --seed N       other reloads (default: 1)
  --wrong SHARE  of the reloads, so many are of a wrong configuration (default: 0.15)
`
const TICK_MS = 50
const WARM_UP = 20
const LONGEST_PAUSE_MS = 150
const DRAIN_MS = 120_000
/** The longest time to wait for what is open only now and then. */
const SETTLE_MS = 10_000
const SOURCES = ['tailed', 'piped', 'sent'] as const
const RECEIVED = 'received.out'
const TAKEN = 'configuration reloaded'
const REFUSED = 'cannot apply the new configuration; keeping the current one'

interface Report {
  readonly reloads: number
  readonly refused: number
  readonly seconds: number
  readonly events: number
  readonly events_per_second: number
  readonly lost: number
  readonly repeated: number
  readonly reload_ms: { readonly median: number; readonly worst: number }
  /** At the beginning, in the middle and at the end, while the same configuration runs and nothing comes. */
  readonly left: readonly Left[]
  readonly wrong: readonly string[]
}

/** Writes to the three sources at a rate, each line with its source and number. */
class Load {
  readonly written: Record<(typeof SOURCES)[number], number> = { tailed: 0, piped: 0, sent: 0 }
  readonly #rate: number
  readonly #file: string
  readonly #daemon: RunningDaemon
  readonly #socket: Socket
  #going: Promise<void> | undefined
  #on = false

  constructor(rate: number, file: string, daemon: RunningDaemon, socket: Socket) {
    this.#rate = rate
    this.#file = file
    this.#daemon = daemon
    this.#socket = socket
  }

  start(): void {
    this.#on = true
    this.#going = this.#go()
    // Told when it is waited for.
    this.#going.catch(() => {})
  }

  async stop(): Promise<void> {
    this.#on = false
    await this.#going
  }

  get total(): number {
    return SOURCES.reduce((sum, source) => sum + this.written[source], 0)
  }

  async #go(): Promise<void> {
    const began = performance.now()
    let ticks = 0
    let given = 0
    while (this.#on) {
      ticks = Math.floor((performance.now() - began) / TICK_MS) + 1
      // A machine that is too slow for the rate gets as much as it can take.
      const due = Math.min((this.#rate * ticks * TICK_MS) / 1000 - given, this.#rate / 4)
      given = (this.#rate * ticks * TICK_MS) / 1000
      const half = Math.round(due / 2)
      appendFileSync(this.#file, this.#lines('tailed', half))
      const room = [
        this.#daemon.stdin.write(this.#lines('piped', Math.round(half / 2))) || roomIn(this.#daemon.stdin),
        this.#socket.write(this.#lines('sent', Math.round(half / 2))) || roomIn(this.#socket),
      ]
      await Promise.all(room)
      await wait(Math.max(0, began + ticks * TICK_MS - performance.now()))
    }
  }

  #lines(source: (typeof SOURCES)[number], count: number): string {
    let text = ''
    for (const end = this.written[source] + count; this.written[source] < end; )
      text += `{"s":"${source}","n":${this.written[source]++}}\n`
    return text
  }
}

async function main(): Promise<number> {
  const defaults = { count: 200, rate: 200_000, seed: 1, wrong: 0.15 }
  const { count, rate, seed, wrong } = programOptions(defaults, USAGE).options
  if (!(count >= 2 && rate > 0)) {
    process.stdout.write(USAGE)
    return 1
  }
  const report = await run(count, rate, wrong, new Seeded(seed))
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
  return report.wrong.length === 0 ? 0 : 1
}

async function run(count: number, rate: number, share: number, random: Seeded): Promise<Report> {
  const folder = workFolder(tmpdir(), 'reloads')
  for (const name of ['logs', 'quiet']) mkdirSync(join(folder, name))
  const file = join(folder, 'logs', 'app.log')
  for (const path of [file, join(folder, 'quiet', 'q.log')]) writeFileSync(path, '')
  const receiver = await receive(join(folder, RECEIVED))
  const tcpPort = await freePort()
  const { port } = receiver.address() as AddressInfo
  const places: Places = { folder, url: `http://127.0.0.1:${port}/`, tcpPort, takenPort: port }
  const daemon = new RunningDaemon(folder, plainConfig(places), { imports: [built('./leak-probe.js')], stdin: true })
  let socket: Socket | undefined
  try {
    await daemon.url()
    socket = await connected(tcpPort)
    const reloads = new Reloads(daemon, places, random)
    const load = new Load(rate, file, daemon, socket)
    const probe = async () => {
      daemon.child.send('tell')
      const [found] = (await once(daemon.child, 'message')) as [Left]
      return found
    }
    /** What is left when no more than in `first` is, or after a while. Some is open only for the moment of a save. */
    const settled = async (first?: Left) => {
      await load.stop()
      await reloads.take(plainConfig(places))
      for (const source of SOURCES)
        await daemon.until(
          'sluice_component_received_events_total',
          { component_id: source },
          load.written[source],
          DRAIN_MS,
        )
      // Without a first one to compare with: idle connections are closed by then.
      if (!first) await wait(2000)
      let found = await probe()
      for (const end = performance.now() + SETTLE_MS; first && growth(first, found).length > 0; ) {
        if (performance.now() > end) break
        await wait(250)
        found = await probe()
      }
      return found
    }
    const left: Left[] = []
    load.start()
    await reloads.several(WARM_UP, share)
    left.push(await settled())
    reloads.forget()
    let seconds = 0
    const before = load.total
    for (const part of [Math.floor(count / 2), Math.ceil(count / 2)]) {
      const began = performance.now()
      load.start()
      await reloads.several(part, share)
      seconds += (performance.now() - began) / 1000
      left.push(await settled(left[0]))
    }
    const events = load.total - before
    const { code, totals } = await ended(daemon, socket)
    const { lost, repeated } = compare(folder, load.written)
    const wrong = [...leaks(left), ...reloads.unexpected]
    if (code !== 0) wrong.push(`exit code ${code}: ${daemon.log.slice(-2000)}`)
    if (totals?.undelivered !== 0) wrong.push(`undelivered: ${totals?.undelivered}`)
    if (daemon.log.includes('SLUICE_CONSERVATION')) wrong.push('event counts do not add up')
    if (lost + repeated > 0) wrong.push(`${lost} events lost, ${repeated} repeated`)
    return {
      reloads: reloads.times.length,
      refused: reloads.refused,
      seconds: round(seconds),
      events,
      events_per_second: Math.round(events / seconds),
      lost,
      repeated,
      reload_ms: { median: round(median(reloads.times)), worst: round(Math.max(...reloads.times)) },
      left,
      wrong,
    }
  } finally {
    daemon.child.kill('SIGKILL')
    socket?.destroy()
    receiver.close()
    receiver.closeAllConnections()
  }
}

/** Rejects when the daemon reads nothing for a minute. */
async function roomIn(stream: Writable): Promise<void> {
  await once(stream, 'drain', { signal: AbortSignal.timeout(60_000) }).catch(cause => {
    throw new Error('a source of the daemon reads nothing any more', { cause })
  })
}

/** Makes reloads, and knows what became of them. */
class Reloads {
  times: number[] = []
  refused = 0
  readonly unexpected: string[] = []
  readonly #daemon: RunningDaemon
  readonly #places: Places
  readonly #random: Seeded
  #line = ''
  #done: ((taken: boolean) => void) | undefined

  constructor(daemon: RunningDaemon, places: Places, random: Seeded) {
    this.#daemon = daemon
    this.#places = places
    this.#random = random
    daemon.child.stderr!.on('data', text => {
      const lines = (this.#line + text).split('\n')
      this.#line = lines.pop()!
      for (const line of lines) if (line.includes(TAKEN) || line.includes(REFUSED)) this.#done?.(line.includes(TAKEN))
    })
  }

  forget(): void {
    this.times = []
    this.refused = 0
  }

  /** Resolves when the daemon says that it runs, or does not. */
  async take(config: string): Promise<boolean> {
    const over = new Promise<boolean>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no reload within a minute:\n${this.#daemon.log}`)), 60_000)
      this.#done = taken => {
        clearTimeout(timer)
        resolve(taken)
      }
    })
    this.#daemon.configure(config)
    this.#daemon.child.kill('SIGHUP')
    return await over
  }

  async several(count: number, share: number): Promise<void> {
    const [random, places] = [this.#random, this.#places]
    for (let i = 0; i < count; i++) {
      const wrong = random.chance(share)
      const config = wrong ? wrongConfig(random, places) : randomConfig(random, places)
      const began = performance.now()
      const taken = await this.take(config)
      this.times.push(performance.now() - began)
      if (!taken) this.refused++
      if (taken === wrong)
        this.unexpected.push(`${taken ? 'taken' : 'not taken'}:\n${config}${this.#daemon.log.slice(-500)}`)
      await wait(random.next() * LONGEST_PAUSE_MS)
      showOnTerminal(`${i + 1} of ${count} `)
    }
  }
}

async function ended(daemon: RunningDaemon, socket: Socket) {
  daemon.stdin.end()
  socket.end()
  const code = await daemon.stop()
  const last = daemon.log.trimEnd().split('\n').at(-1) ?? '{}'
  return { code, totals: JSON.parse(last) as { undelivered?: number } }
}

/** A server that keeps what it gets, as it comes. */
async function receive(path: string) {
  const out = openSync(path, 'a')
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      writeSync(out, request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
      response.writeHead(202).end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return server
}

async function connected(port: number): Promise<Socket> {
  for (let i = 0; ; i++) {
    const socket = connect(port, '127.0.0.1').setNoDelay(true)
    try {
      await once(socket, 'connect')
      return socket
    } catch (error) {
      if (i === 100) throw error
      await wait(50)
    }
  }
}

/** Counts what of each source is nowhere, and what is there more than once. */
function compare(folder: string, written: Load['written']): { lost: number; repeated: number } {
  const seen = new Map(SOURCES.map(source => [source as string, new Uint8Array(written[source])]))
  let repeated = 0
  for (const name of [...OUTPUTS, RECEIVED]) {
    for (const line of linesOf(join(folder, name))) {
      const [, source, n] = /"s":"(\w+)","n":(\d+)/.exec(line) ?? []
      const numbers = seen.get(source ?? '')
      if (!numbers || numbers[Number(n)]!++ > 0) repeated++
    }
  }
  let lost = 0
  for (const numbers of seen.values()) for (const times of numbers) if (times === 0) lost++
  return { lost, repeated }
}

function* linesOf(path: string): Iterable<string> {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch {
    return
  }
  const chunk = Buffer.alloc(4 << 20)
  let rest = ''
  for (let size = readSync(file, chunk); size > 0; size = readSync(file, chunk)) {
    const lines = (rest + chunk.toString('latin1', 0, size)).split('\n')
    rest = lines.pop()!
    yield* lines
  }
  if (rest !== '') yield rest
}

function round(value: number): number {
  return Number(value.toFixed(1))
}

process.exitCode = await main()
