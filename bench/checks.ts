import { tmpdir } from 'node:os'
import { NONE, programOptions } from '../test/support/program-options.js'
import { load } from './api.js'
import { cpuSeconds, median } from './measure.js'
import { type Served, startService } from './service.js'

/**
 * Token checks over HTTP, each client with a key of its own: with the embedded store, with PostgreSQL, and with rate
 * limits that two nodes share through Redis. The services are asked in turns. Prints requests a second, and
 * microseconds of CPU for each.
 */

const USAGE = `Usage: node dist/bench/checks.js --url postgresql://USER@HOST/DATABASE --password-file FILE --redis URL

The database must be empty.
`
const { options } = programOptions({ url: NONE, 'password-file': NONE, ca: NONE, redis: NONE }, USAGE)
const { url, 'password-file': password_file, ca: ca_file, redis } = options
if (!url || !redis) throw new Error(USAGE)

const KEYS = 900
const MS = 3000
const ROUNDS = 7

async function keysOf(served: Served): Promise<string[]> {
  const keys: string[] = []
  for (let n = 0; n < KEYS; n++)
    keys.push((await served.call('POST', '/v3/service-account', served.made.manager.key, {})).key!)
  return keys
}

const store = { type: 'postgresql', url, password_file, tls: ca_file && { ca_file } }
const embedded = await startService(tmpdir(), { limits: {} })
const alone = await startService(tmpdir(), { store, limits: {} })
const shared = await startService(
  tmpdir(),
  { store, limits: { redis: { url: redis, timeout: '2 Seconds' } } },
  { first: alone },
)
const [ofEmbedded, ofNodes] = [await keysOf(embedded), await keysOf(alone)]
const services = { embedded, postgresql: alone, redis: shared }
const rates = new Map(Object.keys(services).map(name => [name, { rate: [] as number[], cpu: [] as number[] }]))
for (let round = -1; round < ROUNDS; round++)
  for (const [name, { url, pid }] of Object.entries(services)) {
    const before = cpuSeconds(pid)
    const keys = name === 'embedded' ? ofEmbedded : ofNodes
    const rate = await load({ url: new URL(url), keys }, 'GET', MS, '/v3/auth/token')
    const cpu = ((cpuSeconds(pid) - before) / ((rate * MS) / 1000)) * 1e6
    if (round < 0) continue
    rates.get(name)!.rate.push(rate)
    rates.get(name)!.cpu.push(cpu)
  }
for (const [name, { rate, cpu }] of rates)
  process.stdout.write(`${name}: ${Math.round(median(rate))} requests/s, ${Math.round(median(cpu))} µs of CPU\n`)
for (const { stop } of Object.values(services)) stop()
