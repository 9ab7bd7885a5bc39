import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { PostgresOptions } from '../src/engine/config/store-options.js'
import { systemClock } from '../src/lib/time.js'
import { Grants } from '../src/service/api/domain/accounts/grants.js'
import { SINGLE_NODE } from '../src/service/api/nodes.js'
import { openPostgres } from '../src/service/api/store/postgres.js'
import { openSqlite } from '../src/service/api/store/sqlite.js'
import type { Store } from '../src/service/api/store/store.js'
import { IdempotencyKeys } from '../src/service/ingest/idempotency-keys.js'
import { NONE, programOptions } from '../test/support/program-options.js'

/**
 * What a node asks of its store: milliseconds, and microseconds of its own CPU, for a key that is not cached and for a
 * request with an idempotency key, 32 at once. As a program it prints one JSON document.
 */

const COUNT = 4000
const AT_ONCE = 32

const { options } = programOptions(
  { url: NONE, 'password-file': NONE, ca: NONE },
  'Usage: node dist/bench/nodes.js [--url postgresql://USER@HOST/DATABASE --password-file FILE [--ca FILE]]\n',
)
const log = pino({ enabled: false })
const { url, 'password-file': password_file, ca: ca_file } = options
const folder = join(tmpdir(), `sluice-nodes-${randomBytes(4).toString('hex')}`)
const given = { type: 'postgresql', url, password_file, tls: ca_file && { ca_file } } as PostgresOptions
const store: Store = url ? await openPostgres(given, log) : await openSqlite(folder, log)

async function measured(work: (n: number) => Promise<unknown>) {
  const [cpu, began] = [process.cpuUsage(), performance.now()]
  let next = 0
  const one = async () => {
    while (next < COUNT) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  const { user, system } = process.cpuUsage(cpu)
  const ms = performance.now() - began
  return { per_second: Math.round((COUNT / ms) * 1000), cpu_microseconds: Math.round((user + system) / COUNT) }
}

const grants = new Grants(store)
const token = await measured(() => grants.read(randomBytes(32)))
const bytes = Buffer.from('x')
const body = { bytes, size: 1, content: 'lines', peer: undefined } as const
let idempotency: unknown = 'of a file of its own'
if (url) {
  const keys = await IdempotencyKeys.open(store, { clock: systemClock, log, secret: bytes, nodes: SINGLE_NODE })
  const [account, pipeline] = ['bench', randomBytes(12).toString('hex')]
  const take = async () => ({ received: 1 })
  idempotency = await measured(n => keys.once({ account, pipeline, key: `${n}`, body, noRoom: undefined }, take))
  await keys.remove(pipeline)
  await keys.stop()
}
await store.close()
process.stdout.write(`${JSON.stringify({ token_not_cached: token, idempotency_key: idempotency })}\n`)
