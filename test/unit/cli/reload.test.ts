import { pino } from 'pino'
import t from 'tap'
import { onReload } from '../../../src/cli/reload.js'
import { Servers } from '../../../src/cli/run-servers.js'
import type { Config } from '../../../src/config/load.js'
import { Metrics } from '../../../src/engine/metrics.js'
import type { Supervisor } from '../../../src/engine/supervisor.js'
import { freePort } from '../../support/free-port.js'
import { until } from '../../support/pushed.js'

t.test('a reload that is asked for during another one comes after it', async t => {
  const log = pino({ level: 'silent' })
  const servers = new Servers({ metrics: async () => Buffer.from('here'), destinations: () => [] }, log)
  const files = { port: await freePort(), digest: 'a' }
  const read = () =>
    ({
      metrics: { host: '127.0.0.1', port: files.port },
      digest: files.digest,
      files: [],
      warnings: [],
    }) as unknown as Config
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
  const told: { refused: string | undefined } = { refused: undefined }
  const systemd = { reload: async <T>(work: () => Promise<T>) => await work() }
  const metrics = new Metrics(log)
  const reloads = onReload({ read }, pipeline as unknown as Supervisor, servers, metrics, log, systemd, told)
  t.teardown(() => {
    reloads.stop()
    servers.close()
  })

  process.emit('SIGHUP')
  await until(() => go !== undefined)
  files.digest = 'b'
  process.emit('SIGHUP')
  // Time for the second one to come as far as it does.
  for (let i = 0; i < 20; i++) await new Promise(resolve => setImmediate(resolve))
  while (told.refused === undefined && pipeline.config.digest !== 'b') {
    go?.()
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(told.refused, undefined, 'both were taken')
  t.equal(pipeline.config.digest, 'b')
  t.equal(await (await fetch(`http://127.0.0.1:${files.port}/metrics`)).text(), 'here')
})
