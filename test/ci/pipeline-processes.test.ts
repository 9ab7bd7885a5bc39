import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { InitResult } from '../../src/daemon/client/documents.js'
import { sleep } from '../../src/lib/time.js'
import { HOST } from '../support/address.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { seriesIn } from '../support/series.js'
import { send } from '../support/service.js'
import { type Running, sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** The real service: what happens to the process of an account is nothing to the others, and costs no acknowledged event. */

const CONFIG = `metrics: { listen: 127.0.0.1:0 }
service:
  listen: 127.0.0.1:0
  data_dir: STATE
  ingest:
    allow_addresses: ['${HOST}']
    process_timeout: 10 Seconds
    max_memory_per_account: 256MiB
    max_unsettled: 128MiB
`

const SILENT = { hang: 'after_body' } as const

async function serve(t: Test, folder: string) {
  const config = join(folder, 'service.yaml')
  writeFileSync(config, CONFIG.replace('STATE', join(folder, 'state')))
  const running = sluice(['serve', '--config', config], { cwd: folder })
  t.teardown(async () => {
    running.child.kill('SIGKILL')
    await running.exit
  })
  const url = await running.until(() => /"url":"(https?:[^"]+)\/v3"/.exec(running.stderr)?.[1])
  const metrics = /"url":"([^"]+\/metrics)"/.exec(running.stderr)![1]!
  const scrape = async () => seriesIn(await (await fetch(metrics)).text())
  return { running, url, config, scrape }
}

async function twoAccounts(t: Test, url: string, config: string) {
  const init = await command(['admin', 'init', '--config', config, '--json'])
  t.equal(init.code, 0, init.stderr)
  const made: InitResult = JSON.parse(init.stdout)
  const second = await send(url, 'POST', '/v3/enterprise/account', {
    key: made.enterprise_service_account.key,
    json: { title: 'second', manager: { email: 'second@example.com' } },
  })
  return { bad: made.manager.key, good: second.body.data.manager.key as string }
}

const pids = ({ stderr }: Running) =>
  [...stderr.matchAll(/"pid":(\d+),"msg":"started a process/g)].map(([, pid]) => Number(pid))

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

t.test('what one account does to its process', async t => {
  const folder = testFolder(t)
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const { running, url, config, scrape } = await serve(t, folder)
  const keys = await twoAccounts(t, url, config)
  const publish = async (key: string, out: object) => {
    const json = { title: 'x', config: { destinations: { out: { ...out, inputs: ['ingest'] } } } }
    const made = await send(url, 'POST', '/v3/pipeline', { key, json })
    t.equal(made.status, 201, made.text)
    const id: string = made.body.data.id
    t.equal((await send(url, 'POST', `/v3/pipeline/${id}/publish`, { key, json: {} })).status, 200)
    return id
  }
  const post = (key: string, id: string, events: unknown) =>
    send(url, 'POST', `/v3/ingest/${id}`, { key, json: events })
  const toReceiver = {
    ...{ type: 'http', url: receiver.url(), batch: { max_wait: '1ms' } },
    retry: { initial: '1 Seconds', max: '10 Seconds' },
  }
  const buffered = await publish(keys.bad, { ...toReceiver, buffer: { type: 'disk' } })
  const direct = await publish(keys.bad, toReceiver)
  const fine = await publish(keys.good, { type: 'blackhole' })
  const deaths = async (reason: string) => (await scrape()).sum('sluice_ingest_process_deaths_total', { reason })
  const counted = async (id: string, name: string) =>
    (await scrape()).sum(`sluice_component_${name}_events_total`, { component_id: `${id}/out` })
  const delivered = (from = 0) => {
    const accepted = receiver.requests.slice(from).filter(({ status }) => status === 200)
    return accepted.flatMap(({ body }) => body.trim().split('\n'))
  }
  t.equal((await post(keys.good, fine, [{ n: 1 }])).status, 202)
  t.equal((await post(keys.bad, direct, [{ n: 0 }])).status, 202)
  // Bodies of all sizes, and many of about the same one, at a time: each comes whole to its own call. In all they are small
  // beside the memory of a process.
  const words = (n: number) => (n % 10 === 0 ? 60_000 + n : n % 2 === 0 ? 14_000 + n : 7 * n)
  const lines = Array.from({ length: 100 }, (_, n) => `${n}${` abcde${n % 10}`.repeat(words(n))}`)
  const headers = { 'content-type': 'text/plain' }
  const answers = await Promise.all(
    lines.map(body => send(url, 'POST', `/v3/ingest/${direct}`, { key: keys.bad, body, headers })),
  )
  t.same([...new Set(answers.map(({ status }) => status))], [202])
  const messages = delivered().flatMap(line => (JSON.parse(line) as { message?: string }).message ?? [])
  // They are too long to be shown.
  t.ok(messages.length === lines.length && lines.every(line => messages.includes(line)), 'whole')
  /** Of the account that is looked at: the other one's was started first. */
  const pid = () => pids(running).at(-1)!

  await t.test('one that does not answer is ended, and others wait for nothing', async t => {
    receiver.otherwise = SILENT
    t.equal((await post(keys.bad, buffered, [{ n: 1 }])).status, 202, 'in the disk buffer')
    const before = await counted(buffered, 'received')
    process.kill(pid(), 'SIGSTOP')
    let isOver = false
    const stuck = post(keys.bad, direct, [{ n: 2 }]).finally(() => {
      isOver = true
    })
    let answered = 0
    while (!isOver) {
      t.equal((await post(keys.good, fine, [{ n: answered }])).status, 202)
      if (!isOver) answered++
      await sleep(100)
    }
    t.ok(answered > 0, 'the other account was answered meanwhile')
    t.match(await stuck, { status: 503, body: { code: 'pipeline_process_ended', message: /send this again later/ } })
    t.ok((await stuck).headers.get('retry-after'))
    t.equal(await deaths('looped'), 1)
    const line = running.stderr.split('\n').find(one => one.includes('SLUICE_PIPELINE_PROCESS_ENDED'))
    t.match(JSON.parse(line!), { reason: 'looped', pipelines: [direct, buffered], attended: [direct] })
    receiver.otherwise = 200
    await until('the next request to work', async () => (await post(keys.bad, direct, [{ n: 3 }])).status === 202)
    await until('the event in the disk buffer', () => delivered().includes('{"n":1}'))
    t.ok((await counted(buffered, 'received')) >= before, 'a counter never goes back')
  })

  await t.test('one that is killed loses nothing that was acknowledged', async t => {
    receiver.otherwise = SILENT
    const [before, first] = [receiver.requests.length, pid()]
    t.equal((await post(keys.bad, buffered, [{ n: 4 }])).status, 202)
    const waiting = post(keys.bad, direct, [{ n: 5 }])
    await until('both requests', () => receiver.requests.length >= before + 2)
    process.kill(first, 'SIGKILL')
    t.match(await waiting, { status: 503, body: { code: 'pipeline_process_ended' } })
    t.equal(await deaths('crashed'), 1)
    receiver.otherwise = 200
    const seen = receiver.requests.length
    await until('another process', () => pid() !== first)
    await until('the event in the disk buffer', () => delivered(seen).includes('{"n":4}'))
    const again = await post(keys.bad, direct, [{ n: 5 }])
    t.equal(again.status, 202, again.text)
    for (const id of [buffered, direct]) {
      const of = (name: string) => counted(id, name)
      await until(
        'all to be settled',
        async () => (await of('received')) === (await of('sent')) + (await of('discarded')),
      )
    }
    t.equal((await scrape()).sum('sluice_conservation_errors_total'), 0)
  })

  await t.test('one that takes too much memory is ended', async t => {
    receiver.otherwise = SILENT
    const body = `${'x'.repeat(99_999)}\n`.repeat(95)
    const ids: string[] = []
    while (ids.length < 6) ids.push(await publish(keys.good, toReceiver))
    const codes: string[] = []
    // Together they are more than it may take. What comes after its end is refused, or starts the next one and waits.
    for (const id of [...ids, ...ids, ...ids, ...ids, ...ids])
      void send(url, 'POST', `/v3/ingest/${id}`, { key: keys.good, body, headers }).then(
        answer => codes.push(answer.body.code),
        () => {},
      )
    await until('the end of the process', () => codes.includes('pipeline_process_ended'))
    t.ok((await deaths('memory')) >= 1)
    receiver.otherwise = 200
    t.equal((await post(keys.good, fine, [{ n: 1 }])).status, 202, 'it starts again')
    t.equal((await post(keys.bad, direct, [{ n: 6 }])).status, 202)
  })

  await t.test('none is left when the service is killed, and the next one goes on', async t => {
    receiver.otherwise = SILENT
    t.equal((await post(keys.bad, buffered, [{ n: 7 }])).status, 202)
    const all = pids(running)
    t.ok(all.filter(isAlive).length >= 2)
    running.child.kill('SIGKILL')
    await running.exit
    receiver.otherwise = 200
    const next = await serve(t, folder)
    await until('the end of all processes', () => !all.some(isAlive))
    await until('the event in the disk buffer', () => delivered().includes('{"n":7}'))

    let answer = () => {}
    receiver.otherwise = {
      wait: new Promise(resolve => {
        answer = resolve
      }),
    }
    const seen = receiver.requests.length
    const waiting = send(next.url, 'POST', `/v3/ingest/${direct}`, { key: keys.bad, json: [{ n: 8 }] })
    await until('the request', () => receiver.requests.length > seen)
    next.running.child.kill('SIGTERM')
    await next.running.until(() => next.running.stderr.includes('ending: no new requests'))
    answer()
    t.equal((await waiting).status, 202, 'what is under way is delivered before the end')
    t.equal(await next.running.exit, 0)
    t.notOk(pids(next.running).some(isAlive))
  })
})
