import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fastify } from 'fastify'
import { type Logger, pino } from 'pino'
import { components } from '../src/components/list.js'
import { systemClock } from '../src/lib/time.js'
import { Service } from '../src/service/api/domain/service.js'
import { openState } from '../src/service/api/store/state.js'
import { benchApp } from './api-app.js'

/** The two servers of the bench of the API, each a process of its own: `constant`, `fill FOLDER` and then `service FOLDER`. */

const ACCOUNTS = 1000
const KEYS = 10_000
const ABREAST = 50
/** How many keys the load is made with. */
const GIVEN = 1000

const [kind, folder = ''] = process.argv.slice(2)
const listen = { host: '127.0.0.1', port: 0 }

/** Answers the very bytes that the service answers, headers and all, without looking at the request. */
async function constant(): Promise<void> {
  const app = fastify({ logger: false })
  const answer = { meta: { type: 'pipeline', page: { limit: 50, next: null } }, data: [] }
  const id = '0123456789abcdef01234567'
  const headers = {
    'x-request-id': randomUUID(),
    'x-auth-subject-id': id,
    'x-auth-subject-email': `${id}@service-account.invalid`,
    'x-auth-enterprise-id': id,
    'x-auth-access-type': 'access',
    'x-auth-account-id': id,
    'x-auth-account-short-id': '012345678',
    'ratelimit-limit': '60000',
    'ratelimit-remaining': '59999',
    'ratelimit-reset': '1',
    'ratelimit-policy': '60000;w=60',
  }
  app.get('/v3/pipeline', async (_request, reply) => {
    reply.headers(headers)
    return answer
  })
  tell({ url: await app.listen(listen), keys: [`sts_${'0'.repeat(40)}`] })
}

/** Fills a store, or serves one that was filled. */
async function service(fill: boolean): Promise<void> {
  const log = pino({ level: 'warn' }, pino.destination(2))
  const state = await openState(folder, randomBytes, { log })
  const unlimited = { limit: 1e9, windowMs: 1000 }
  const service = await Service.open({
    store: state.store,
    secret: state.secret,
    clock: systemClock,
    random: randomBytes,
    log,
    components,
    limits: { requestsPerKey: unlimited, failedTries: unlimited, changes: unlimited, changesOfAccount: unlimited },
  })
  if (!fill) return serve(service, log)
  const made = await service.init()
  const authenticate = (key: string, delegateAccountId?: string) =>
    service.authenticate({ authorization: `Token ${key}`, delegateAccountId, address: '127.0.0.1' })
  const enterprise = await authenticate(made.enterprise_service_account.key)
  const accounts: string[] = []
  await abreast(ACCOUNTS, async n => {
    accounts.push((await service.accounts.create(enterprise, { title: `account ${n}` })).id)
  })
  const keys: string[] = []
  await abreast(KEYS, async n => {
    const within = await authenticate(made.enterprise_service_account.key, accounts[n % ACCOUNTS])
    keys.push((await service.serviceAccounts.create(within, { title: `service ${n}` })).key)
  })
  const step = Math.floor(KEYS / GIVEN)
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(keys.filter((_, n) => n % step === 0)))
  await service.close()
  await state.close()
}

async function serve(service: Service, log: Logger): Promise<void> {
  const app = await benchApp(service, log)
  tell({ url: await app.listen(listen), keys: JSON.parse(readFileSync(join(folder, 'keys.json'), 'utf8')) })
}

async function abreast(count: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: ABREAST }, worker))
}

function tell(ready: { url: string; keys: readonly string[] }): void {
  process.stdout.write(`${JSON.stringify(ready)}\n`)
}

await (kind === 'constant' ? constant() : service(kind === 'fill'))
