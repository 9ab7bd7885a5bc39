import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { openState } from '../../src/service/api/store/state.js'
import { bound } from '../support/bound.js'
import { sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { Seeded } from '../support/seeded.js'
import { pipelineConfig, send } from '../support/service.js'
import { TracedDisk, traceTo } from '../support/traced-disk.js'
import { until } from '../support/until.js'

/** The power of the machine of a service fails. Its disk then has what strace saw the service sync, and some of the rest. */

const CUTS = 60
const ROUNDS = 90
const FILES = /^(secret(\.new)?|(store|keys)(\/store\.sqlite(-wal|-journal)?)?)$/
const log = pino({ enabled: false })

/** Columns that are equal in a store without halves of changes. */
const WHOLE = `SELECT
  (SELECT count(*) FROM audit WHERE action = 'service_account.create') AS created_1,
  (SELECT count(*) FROM service_account WHERE title LIKE 'a%') AS created_2,
  (SELECT count(*) FROM service_account a WHERE title LIKE 'a%'
    AND EXISTS (SELECT 1 FROM access_key WHERE subject_id = a.id AND (revoked_at IS NULL) = (a.key_id IS NOT NULL))
  ) AS created_3,
  (SELECT count(*) FROM audit WHERE action = 'service_account.revoke') AS revoked_1,
  (SELECT count(*) FROM access_key WHERE revoked_at IS NOT NULL) AS revoked_2,
  (SELECT count(*) FROM audit WHERE action = 'pipeline.create') AS saved_1,
  (SELECT count(*) FROM pipeline) AS saved_2,
  (SELECT count(*) FROM pipeline p WHERE revision = (SELECT count(*) FROM revision WHERE pipeline_id = p.id)) AS saved_3,
  (SELECT count(*) FROM audit WHERE action = 'pipeline.publish') AS published_1,
  (SELECT count(*) FROM pipeline WHERE published_revision IS NOT NULL) AS published_2,
  (SELECT count(*) FROM audit WHERE action = 'secret.create') AS sealed_1,
  (SELECT count(*) FROM secret) AS sealed_2`

/** A change that was acknowledged before a time. The query finds it in the store. */
interface Acknowledged {
  readonly at: number
  readonly query: string
  readonly values: readonly string[]
}

t.test('whatever of it a disk has: acknowledged changes are there, and no half of one', async t => {
  const strace = needs(t, 'strace')
  if (!strace) return
  const folder = testFolder(t)
  const [trace, state, config, init] = ['trace', 'state', 'service.yaml', 'init.json'].map(name => join(folder, name))
  const about = `service: { listen: 127.0.0.1:0, data_dir: ${state}, limits: { requests: 1000000 } }`
  writeFileSync(config!, `metrics: false\n${about}\n`)
  const main = `${process.execPath} ${sluiceMain}`
  const both = `mkdir ${state} && ${main} admin init --json --config ${config} >${init} && exec ${main} serve --config ${config}`
  const child = spawn(...bound(strace, [...traceTo(trace!), 'sh', '-c', both]), { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stderr.setEncoding('utf8').on('data', text => (said += text))
  const url = await until('it to listen', () => /"url":"(http:[^"]+)\/v3"/.exec(said)?.[1], { show: () => said })
  const { key } = (JSON.parse(readFileSync(init!, 'utf8')) as InitResult).manager

  const acknowledged: Acknowledged[] = []
  const call = async (method: string, path: string, json: object | undefined, query: string, ...values: string[]) => {
    const { status, body, text } = await send(url, method, `/v3/${path}`, { key, json })
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
    const id: string = body?.data.id
    acknowledged.push({ at: Date.now() + 1, query, values: values.length > 0 ? values : [id] })
    return id
  }
  const secret = 'x'.repeat(4000)
  const round = async (n: number) => {
    const id = await call('POST', 'service-account', { title: `a${n}` }, 'SELECT id FROM service_account WHERE id = $1')
    const revoked = 'SELECT id FROM access_key WHERE subject_id = $1 AND revoked_at IS NOT NULL'
    if (n % 2 === 0) await call('DELETE', `service-account/${id}/key`, undefined, revoked, id)
    const saved = 'SELECT id FROM pipeline WHERE id = $1'
    const pipeline = await call('POST', 'pipeline', { title: `p${n}`, config: pipelineConfig() }, saved)
    await call('POST', `pipeline/${pipeline}/publish`, {}, `${saved} AND published_revision = 1`, pipeline)
    await call('PUT', `secret/S${n}`, { value: secret }, 'SELECT id FROM secret WHERE name = $1', `S${n}`)
    return pipeline
  }
  const pipeline = await round(0)
  const ingest = async (n: number) => {
    const headers = { 'idempotency-key': `${n}` }
    const sent = () => send(url, 'POST', `/v3/ingest/${pipeline}`, { key, json: [{ n }], headers })
    await until('it to take events', async () => (await sent()).status === 202)
  }
  for (let n = 1; n < ROUNDS; n += 3) await Promise.all([round(n), round(n + 1), round(n + 2), ingest(n)])
  const closed = once(child, 'close')
  process.kill(Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')), 'SIGTERM')
  await closed
  t.comment(`${acknowledged.length} changes`)

  const disk = new TracedDisk(trace!, state!, FILES)
  const random = new Seeded(20_311_128)
  const points = Array.from({ length: CUTS }, () => 1 + random.below(disk.size)).sort((a, b) => a - b)
  for (const [i, point] of [...points, disk.size].entries()) {
    const at = disk.cut(point, join(folder, `cut-${i}`), random, random.pick([0, 0.5, 0.9, 1]))
    const before = acknowledged.filter(one => one.at < at)
    await checkStore(join(folder, `cut-${i}`), before, `${point} of ${disk.size} calls, ${before.length} changes`)
  }

  async function checkStore(folder: string, changes: readonly Acknowledged[], what: string): Promise<void> {
    const { store, keys, close } = await openState(folder, randomBytes, { log })
    const missing: Acknowledged[] = []
    for (const change of changes) if (!(await store.get(change.query, ...change.values))) missing.push(change)
    t.same(missing.slice(0, 3), [], `after ${what}: all are there`)
    for (const one of [store, keys])
      t.same(await one.all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }], `after ${what}: it is whole`)
    const counts: Record<string, number[]> = {}
    for (const [name, count] of Object.entries((await store.get<Record<string, number>>(WHOLE))!))
      (counts[name.split('_')[0]!] ??= []).push(count)
    const halves = Object.entries(counts).filter(([, [first, ...others]]) => others.some(count => count !== first))
    t.same(halves, [], `after ${what}: no half of a change`)
    await close()
  }
})
