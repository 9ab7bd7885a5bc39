import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { APPS, EXCLUDED_HOST, type Input } from './input.js'
import { built, type Measured, measure, SLUICE } from './measure.js'
import { countLines, sameBytes } from './verify.js'

/** One thing to measure, and how to tell that it did its work. */
export interface Job {
  readonly id: string
  readonly title: string
  /** How many times the obvious program's lines/s, and its CPU time a line, are wanted at least. */
  readonly target: number | undefined
  /** Runs it once; throws when what came out is wrong. `thorough`: reads all of it again. */
  run(input: Input, folder: string, thorough: boolean): Promise<Measured>
}

const LIMIT = 100

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
async function ship(input: Input, folder: string, decode: 'text' | 'json', rest: string): Promise<Measured> {
  const config = join(folder, 'sluice.yaml')
  const state = join(folder, 'state')
  rmSync(state, { recursive: true, force: true })
  writeFileSync(
    config,
    `data_dir: ${JSON.stringify(state)}
metrics: { listen: 127.0.0.1:0 }
sources:
  lines:
    type: file
    include: [${JSON.stringify(input.path)}]
    decode: ${decode}
    follow: false
${rest}`,
  )
  const measured = await measure(SLUICE, ['run', '--config', config])
  const totals = JSON.parse(measured.stderr.trimEnd().split('\n').at(-1)!)
  expect('lines received', totals.received, input.lines)
  expect('lines undelivered', totals.undelivered, 0)
  if (measured.stderr.includes('SLUICE_CONSERVATION')) throw new Error(`not all accounted for:\n${measured.stderr}`)
  return measured
}

function expect(what: string, found: number, from: number, to = from): void {
  if (found >= from && found <= to) return
  throw new Error(`${what}: ${found}, not ${from === to ? from : `between ${from} and ${to}`}`)
}

/** Every excluded line, and of each app at most the limit in each window that may have been open. */
function checkThrottled(path: string, input: Input, seconds: number): void {
  const { lines, matching } = countLines(path, `"host":"${EXCLUDED_HOST}"`)
  expect('excluded lines', matching, input.excluded)
  const others = input.lines - input.excluded
  // The first window of every app lets its limit through, if there are that many.
  const least = Math.min(others, APPS * LIMIT) * 0.5
  expect('limited lines', lines - matching, least, APPS * LIMIT * (Math.floor(seconds) + 1))
}

export const obvious: Job = {
  id: 'obvious',
  title: 'J2 by the obvious program',
  target: undefined,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-obvious.ndjson')
    const measured = await measure(built('./obvious.js'), [input.path, out, String(LIMIT), EXCLUDED_HOST])
    if (thorough) checkThrottled(out, input, measured.seconds)
    rmSync(out)
    return measured
  },
}

const raw: Job = {
  id: 'J1',
  title: 'file → file, raw',
  target: 7,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-raw.ndjson')
    const measured = await ship(input, folder, 'text', fileDestination('lines', out))
    expect('bytes written', statSync(out).size, input.bytes)
    if (thorough && !sameBytes(input.path, out)) throw new Error(`${out} is not what was read`)
    rmSync(out)
    return measured
  },
}

const throttled: Job = {
  id: 'J2',
  title: 'file → throttle by .app → file, raw',
  target: 4,
  async run(input, folder, thorough) {
    const out = join(folder, 'out-throttled.ndjson')
    const measured = await ship(input, folder, 'json', THROTTLE + fileDestination('limit_app', out))
    if (thorough) checkThrottled(out, input, measured.seconds)
    rmSync(out)
    return measured
  },
}

const http: Job = {
  id: 'J3',
  title: 'file → HTTP on loopback',
  target: 3,
  async run(input, folder) {
    const receiver = fork(built('./receiver.js'))
    try {
      const { port } = (await answer(receiver)) as { port: number }
      const destination = `destinations:
  upstream:
    type: http
    inputs: [lines]
    url: http://127.0.0.1:${port}/ingest
`
      const measured = await ship(input, folder, 'json', destination)
      receiver.send('counts')
      const { lines, bytes } = (await answer(receiver)) as { lines: number; bytes: number }
      expect('lines that arrived', lines, input.lines)
      expect('bytes that arrived', bytes, input.bytes)
      return measured
    } finally {
      receiver.disconnect()
    }
  },
}

async function answer(child: ChildProcess): Promise<unknown> {
  const [message] = await once(child, 'message')
  return message
}

export const jobs: readonly Job[] = [raw, throttled, http]
