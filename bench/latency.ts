import { closeSync, openSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { programOptions, runProgram } from '../test/support/program-options.js'
import { PERFORMANCE_PAGE, writeBetweenMarkers } from './docs.js'
import { describeMachine, formatMachine } from './machine.js'
import { RunningDaemon } from './running.js'
import { workFolder } from './work.js'

/** `npm run bench:latency`: how long a line takes from the moment it is appended to a file until the receiver has it. */

const USAGE = `Usage: npm run bench:latency -- [options]

  --rate N       lines per second (default: 1000)
  --seconds N    how long (default: 60)
  --max-wait T   batch.max_wait of the destination (default: 10 Milliseconds)
  --json         one JSON document
  --write-docs   writes the percentiles into docs/performance.md
`
const SETTLE_SECONDS = 3
const PATIENCE_MS = 30_000
/** Upper bounds of the shown buckets, in milliseconds. */
const BOUNDS = [5, 10, 15, 20, 30, 50, 100, Number.POSITIVE_INFINITY]

const { options } = programOptions(
  { rate: 1000, seconds: 60, 'max-wait': '10 Milliseconds', json: false, 'write-docs': false },
  USAGE,
)

/** Appends the lines and receives them. Returns the latencies in milliseconds, sorted. */
async function measure(folder: string, rate: number, seconds: number, maxWait: string): Promise<Float64Array> {
  const count = Math.round(rate * (SETTLE_SECONDS + seconds))
  const sentAt = new Float64Array(count)
  const latencies = new Float64Array(count)
  let received = 0
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('latin1').on('data', text => (body += text))
    request.on('end', () => {
      const now = performance.now()
      for (const [, number] of body.matchAll(/"n":(\d+)/g)) latencies[Number(number)] = now - sentAt[Number(number)]!
      received += body.split('\n').length - 1
      response.end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const log = openSync(join(folder, 'app.log'), 'a')
  const config = `sources: { lines: { type: file, include: [${JSON.stringify(join(folder, 'app.log'))}], decode: json } }
destinations:
  upstream:
    type: http
    inputs: [lines]
    url: http://127.0.0.1:${(server.address() as AddressInfo).port}/
    batch: { max_wait: ${maxWait} }
`
  const daemon = new RunningDaemon(folder, config)
  try {
    await daemon.url()
    const began = performance.now()
    for (let at = 0; at < count; await wait(1)) {
      for (const due = Math.min(count, ((performance.now() - began) / 1000) * rate); at < due; at++) {
        const line = `{"timestamp":"2026-01-01T00:00:00.000Z","level":"info","n":${at},"message":"${'x'.repeat(140)}"}\n`
        sentAt[at] = performance.now()
        writeSync(log, line)
      }
    }
    for (const end = performance.now() + PATIENCE_MS; received < count && performance.now() < end; ) await wait(20)
    if (received < count) throw new Error(`only ${received} of ${count} lines arrived:\n${daemon.log}`)
  } finally {
    await daemon.stop()
    closeSync(log)
    server.close()
    server.closeAllConnections()
  }
  return latencies.subarray(Math.round(rate * SETTLE_SECONDS)).sort()
}

function format(latencies: Float64Array): { percentiles: string; table: string } {
  const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))]!
  const rows = BOUNDS.map((bound, i) => {
    const from = i === 0 ? 0 : BOUNDS[i - 1]!
    const share = latencies.filter(ms => ms >= from && ms < bound).length / latencies.length
    const name = bound === Number.POSITIVE_INFINITY ? `${from} and more` : `${from} to ${bound}`
    return `| ${name} | ${(share * 100).toFixed(2)} % | ${'█'.repeat(Math.round(share * 40))} |`
  })
  const shown = [0.5, 0.9, 0.99, 0.999].map(
    share => `${Number((share * 100).toFixed(1))} % within ${at(share).toFixed(1)} ms`,
  )
  return {
    percentiles: `Lines arrived: ${shown.join(', ')}, all within ${at(1).toFixed(1)} ms.\n`,
    table: `| milliseconds | lines | |\n|---:|---:|:---|\n${rows.join('\n')}\n`,
  }
}

async function main(): Promise<void> {
  const { rate, seconds } = options
  const machine = describeMachine()
  const latencies = await measure(workFolder(tmpdir(), 'latency'), rate, seconds, options['max-wait'])
  const about = `${rate} lines a second for ${seconds} s, \`max_wait: ${options['max-wait']}\`.\n${formatMachine(machine)}\n`
  const { percentiles, table } = format(latencies)
  const json = { machine, rate, seconds, max_wait: options['max-wait'], milliseconds: Array.from(latencies) }
  process.stdout.write(options.json ? `${JSON.stringify(json)}\n` : `${about}\n${percentiles}\n${table}`)
  if (options['write-docs']) writeBetweenMarkers(PERFORMANCE_PAGE, 'bench:latency', `${about}\n${percentiles}`)
}

await runProgram('bench:latency', main)
