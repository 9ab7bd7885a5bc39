import { pino } from 'pino'
import t, { type Test } from 'tap'
import { onReload } from '../../../../src/daemon/run/reload.js'
import { Servers } from '../../../../src/daemon/run/servers.js'
import type { Config } from '../../../../src/engine/config/load.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import type { Supervisor } from '../../../../src/engine/run/supervisor.js'
import { HOST, ownPort } from '../../../support/address.js'
import { turns, until } from '../../../support/until.js'

const log = pino({ level: 'silent' })
const systemd = { reload: async <T>(work: () => Promise<T>) => await work() }

const configOf = (port: number, digest: string) =>
  ({ metrics: { host: HOST, port }, digest, files: [], warnings: [], watched: false }) as unknown as Config

const answer = async (port: number) =>
  await fetch(`http://${HOST}:${port}/metrics`).then(
    reply => reply.text(),
    () => 'gone',
  )

async function untilAnswer(port: number, text: string): Promise<void> {
  await until(async () => (await answer(port)) === text)
}

const connections = { closed() {}, refused() {} }
const serversHere = () =>
  new Servers(
    {
      metrics: {
        render: async () => Buffer.from('here'),
        samples: async () => ({}),
        components: new Map(),
        problems: () => [],
      },
      destinations: () => [],
      connections,
    },
    log,
  )

/** Reloads `pipeline` at SIGHUP, until the test is over. */
function reloading(t: Test, read: () => Promise<Config>, pipeline: object, servers: Servers) {
  const told: { refused: string | undefined } = { refused: undefined }
  const metrics = new Metrics(log)
  const reloads = onReload({ read, applied: () => {} }, pipeline as Supervisor, servers, metrics, log, systemd, told)
  t.teardown(async () => {
    await reloads.stop()
    servers.close()
  })
  /** Numbers of reloads that succeeded and failed. */
  const counts = async () => (await metrics.samples()).sluice_config_reloads_total!.map(({ value }) => value)
  return { reloads, told, counts }
}

t.test('a reload that is asked for during another one comes after it', async t => {
  const servers = serversHere()
  const files = { port: await ownPort(), digest: 'a' }
  const read = () => configOf(files.port, files.digest)
  /** Lets the replacement that is under way come to its end. */
  let go: (() => void) | undefined
  const pipeline = {
    config: read(),
    async replace(config: Config) {
      await new Promise<void>(resolve => {
        go = resolve
      })
      go = undefined
      pipeline.config = config
    },
  }
  const { told } = reloading(t, async () => read(), pipeline, servers)

  process.emit('SIGHUP')
  await until(() => go !== undefined)
  files.digest = 'b'
  process.emit('SIGHUP')
  // Time for the second one to come as far as it does.
  await turns()
  await until('the second one', () => {
    go?.()
    return told.refused !== undefined || pipeline.config.digest === 'b'
  })
  t.equal(told.refused, undefined, 'both were taken')
  t.equal(pipeline.config.digest, 'b')
  t.equal(await answer(files.port), 'here')
})

t.test('however many signals come during a reload, one reload follows it, with the last content', async t => {
  const servers = serversHere()
  const files = { port: await ownPort(), digest: 'a' }
  const read = () => configOf(files.port, files.digest)
  const replaced: string[] = []
  let go = () => {}
  const pipeline = {
    config: read(),
    async replace(config: Config) {
      replaced.push(config.digest)
      if (replaced.length === 1)
        await new Promise<void>(resolve => {
          go = resolve
        })
      pipeline.config = config
    },
  }
  reloading(t, async () => read(), pipeline, servers)
  process.emit('SIGHUP')
  await until(() => replaced.length === 1)
  for (let i = 1; i <= 20; i++) {
    files.digest = `b${i}`
    process.emit('SIGHUP')
    await turns()
  }
  go()
  await until(() => pipeline.config.digest === 'b20')
  files.digest = 'c'
  process.emit('SIGHUP')
  await until(() => pipeline.config.digest === 'c')
  t.same(replaced, ['a', 'b20', 'c'])
})

t.test('an address whose port the daemon itself uses', async t => {
  const servers = serversHere()
  t.teardown(() => servers.close())
  const config = configOf(await ownPort(), 'a')
  ;(await servers.prepare(config)).use()
  const metrics = { host: '0.0.0.0', port: (config.metrics as { port: number }).port }
  await t.rejects(servers.prepare({ ...config, metrics }), {
    message: `cannot serve metrics at 0.0.0.0:${metrics.port}: this daemon uses the port for ${servers.metricsUrl}; restart the daemon to change only the host, or set metrics.listen to a free port`,
  })
})

t.test('a configuration that cannot start gives the address of the metrics back to the one before', async t => {
  const servers = serversHere()
  const [before, after] = [await ownPort(), await ownPort()]
  const first = configOf(before, 'a')
  const pipeline = {
    config: first,
    hasStarted: false,
    async replace(config: Config) {
      pipeline.config = config
    },
  }
  ;(await servers.prepare(pipeline.config)).use()
  const read = () => configOf(after, 'b')
  const { reloads, told, counts } = reloading(t, async () => read(), pipeline, servers)

  process.emit('SIGHUP')
  await until(() => pipeline.config.digest === 'b')
  await untilAnswer(after, 'here')
  await untilAnswer(before, 'gone')
  t.same(await counts(), [0, 0], 'its components have not started yet')
  reloads.wentBack(new Error('no such thing here'), first)
  await untilAnswer(before, 'here')
  await untilAnswer(after, 'gone')
  t.equal(told.refused, 'no such thing here')
  pipeline.hasStarted = true
  t.same(await counts(), [0, 1], 'one reload has one result')
  process.emit('SIGHUP')
  await until(async () => String(await counts()) === '1,1')
})

t.test('a configuration that cannot start takes nothing from the one that a running reload applies', async t => {
  const servers = serversHere()
  const [before, after, last] = [await ownPort(), await ownPort(), await ownPort()]
  const first = configOf(before, 'a')
  const pipeline = {
    config: configOf(after, 'b'),
    async replace(config: Config) {
      pipeline.config = config
    },
  }
  ;(await servers.prepare(pipeline.config)).use()
  let read = () => {}
  const next = new Promise<Config>(resolve => {
    read = () => resolve(configOf(last, 'c'))
  })
  const { reloads } = reloading(t, () => next, pipeline, servers)

  process.emit('SIGHUP')
  await turns()
  reloads.wentBack(new Error('no such thing here'), first)
  pipeline.config = first
  read()
  await until(() => pipeline.config.digest === 'c')
  await reloads.stop()
  t.equal(await answer(last), 'here')
  t.equal(await answer(before), 'gone')
})
