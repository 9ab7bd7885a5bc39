import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { CountingReceiver } from './counting.js'
import { EXCLUDED_HOST, type Input, type InputKind } from './input.js'
import { built, freePort, type Measured, measure, RUN } from './measure.js'
import { fillIn } from './peers/conf.js'
import { JOBS } from './peers/peer.js'
import { checkThrottled, expect, sameBytes } from './verify.js'

/** One thing to measure, and how to tell that it did its work. */
export interface Job {
  readonly id: string
  readonly title: string
  /** How many times the obvious program's lines/s, and its CPU time a line, are wanted at least. */
  readonly target: number | undefined
  /** Default: `ndjson`. */
  readonly input?: InputKind
  /** Runs it once; throws when what came out is wrong. `thorough`: reads all of it again. */
  run(input: Input, folder: string, thorough: boolean): Promise<Measured>
}

/** Lines that the throttle passes of each app in a second. */
export const LIMIT = 100

const THROTTLE = `processors:
  limit_app:
    type: throttle
    inputs: [lines]
    limit: ${LIMIT}
    window: 1 Seconds
    key_field: .app
    exclude: if (.host equal '${EXCLUDED_HOST}')
`

function fileDestination(input: string, path: string): string {
  return `destinations:
  copy:
    type: file
    inputs: [${input}]
    path: ${JSON.stringify(path)}
    encoding: raw
`
}

/** Runs the daemon over the whole input, with checkpoints, acknowledgements and metrics on, until it ends by itself. */
function shipFile(input: Input, folder: string, decode: 'text' | 'json', rest: string): Promise<Measured> {
  const source = `type: file, include: [${JSON.stringify(input.path)}], decode: ${decode}, follow: false`
  return ship(input, folder, `{ ${source} }`, rest)
}

/** The same for any source that gets the whole input; `during` ends the daemon, unless that happens by itself. */
async function ship(
  input: Input,
  folder: string,
  source: string,
  rest: string,
  during?: Parameters<typeof measure>[1],
): Promise<Measured> {
  const config = join(folder, 'sluice.yaml')
  const state = join(folder, 'state')
  rmSync(state, { recursive: true, force: true })
  const text = `data_dir: ${JSON.stringify(state)}
metrics: { listen: 127.0.0.1:0 }
sources:
  lines: ${source}
${rest}`
  writeFileSync(config, text)
  const measured = await measure([...RUN, config], during)
  const totals = JSON.parse(measured.stderr.trimEnd().split('\n').at(-1)!)
  expect('lines received', totals.received, input.lines)
  expect('lines undelivered', totals.undelivered, 0)
  if (measured.stderr.includes('SLUICE_CONSERVATION')) throw new Error(`not all accounted for:\n${measured.stderr}`)
  return measured
}

export const obvious: Job = {
  id: 'obvious',
  title: 'J2 by the obvious program',
  target: undefined,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-obvious.ndjson')
    const measured = await measure([built('./obvious.js'), input.path, out, String(LIMIT), EXCLUDED_HOST])
    if (thorough) checkThrottled(out, input, LIMIT, Math.floor(measured.seconds) + 1)
    rmSync(out)
    return measured
  },
}

const raw: Job = {
  id: 'J1',
  title: JOBS.J1,
  target: 7,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-raw.ndjson')
    const measured = await shipFile(input, folder, 'text', fileDestination('lines', out))
    expect('bytes written', statSync(out).size, input.bytes)
    if (thorough && !sameBytes(input.path, out)) throw new Error(`${out} is not what was read`)
    rmSync(out)
    return measured
  },
}

const throttled: Job = {
  id: 'J2',
  title: JOBS.J2,
  target: 4,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-throttled.ndjson')
    const measured = await shipFile(input, folder, 'json', THROTTLE + fileDestination('limit_app', out))
    if (thorough) checkThrottled(out, input, LIMIT, Math.floor(measured.seconds) + 1)
    rmSync(out)
    return measured
  },
}

const http: Job = {
  id: 'HTTP',
  title: 'JSON lines: file → HTTP, default options',
  target: 3,
  async run(input, folder) {
    const receiver = await CountingReceiver.start()
    try {
      const destination = `destinations:
  upstream:
    type: http
    inputs: [lines]
    url: http://127.0.0.1:${receiver.port}/ingest
`
      const measured = await shipFile(input, folder, 'json', destination)
      const { lines, bytes } = await receiver.counts()
      expect('lines that arrived', lines, input.lines)
      expect('bytes that arrived', bytes, input.bytes)
      return measured
    } finally {
      receiver.close()
    }
  },
}

const tcp: Job = {
  id: 'J4',
  title: JOBS.J4,
  target: undefined,
  async run(input, folder) {
    const out = join(folder, 'out-tcp.ndjson')
    const port = await freePort()
    const source = `{ type: tcp, listen: "127.0.0.1:${port}", decode: text }`
    const measured = await ship(input, folder, source, fileDestination('lines', out), async daemon => {
      const sender = spawn(process.execPath, [built('./peers/sender.js'), input.path, String(port)])
      daemon.once('exit', () => sender.kill())
      await once(sender, 'exit')
      daemon.kill('SIGTERM')
    })
    expect('bytes written', statSync(out).size, input.bytes)
    rmSync(out)
    return measured
  },
}

/** A job to a server, with the configuration that is compared with other programs. `receives`: options of the receiver. */
const toServer = (id: 'J5' | 'J6' | 'J7' | 'J8', receives: readonly string[], input?: InputKind): Job => ({
  id,
  title: JOBS[id],
  target: undefined,
  ...(input && { input }),
  async run(input, folder) {
    const receiver = await CountingReceiver.start(receives)
    try {
      const config = join(folder, 'sluice.yaml')
      const name = `sluice-${id.toLowerCase()}.yaml`
      fillIn(name, config, { folder, input: input.path, out: '', port: receiver.port })
      const lines = input.lines * (id === 'J7' ? 2 : 1)
      const measured = await measure([...RUN, config], async daemon => {
        while (daemon.exitCode === null && (await receiver.counts()).lines < lines) await wait(100)
        daemon.kill('SIGTERM')
      })
      expect('lines that arrived', (await receiver.counts()).lines, lines)
      return measured
    } finally {
      receiver.close()
    }
  },
})

const servers = [
  toServer('J5', ['--records', 'otlp'], 'nginx'),
  toServer('J6', ['--records', 'loki']),
  toServer('J7', ['--bulk']),
  toServer('J8', []),
]

export const jobs: readonly Job[] = [raw, throttled, http]
/** The jobs that can be profiled. The obvious program has no part that compares with those after `jobs`. */
export const profiled: readonly Job[] = [...jobs, tcp, ...servers]
