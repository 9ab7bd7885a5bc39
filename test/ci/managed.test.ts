import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadDaemonConfig } from '../../src/daemon/managed/local-part.js'
import { fleetText } from '../../src/service/commands/fleet.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'
import { startService } from '../support/service.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'
import { valuesOf } from '../support/values-of.js'

t.test('a revision that would leave buffered events behind waits, and the fleet sees why', async t => {
  const folder = testFolder(t, { service: {}, 'app.log': 'one\ntwo\n' })
  const service = await startService(join(folder, 'service'))
  t.teardown(() => service.close())
  const receiver = await startReceiver({})
  t.teardown(() => receiver.close())
  receiver.otherwise = 503
  const { key } = service.made.service_account
  const client = service.client(key)
  const pipeline = (id: string) => ({
    destinations: {
      [id]: {
        type: 'http',
        inputs: ['ingest'],
        url: receiver.url(),
        buffer: { type: 'disk', max_bytes: '10MB' },
        retry: { initial: '100ms', max: '200ms' },
      },
    },
  })
  const { id } = await client.pipelines.create({ title: 'web', config: pipeline('up') })
  await client.pipelines.publish(id)
  writeFileSync(join(folder, 'key'), key, { mode: 0o600 })
  const path = join(folder, 'local.yaml')
  const text = `data_dir: ${folder}/state
metrics: false
shutdown_timeout: 500ms
sources: { app: { type: file, include: [${folder}/app.log] } }
managed: { poll_interval: 1s, report_interval: 1s }
`
  writeFileSync(path, text)
  const url = `${service.url}/v3/pipeline/${id}`
  const args = ['run', '--pipeline', url, '--key-file', join(folder, 'key'), '--config', path]
  const reported = async (test: (found: { revision: number | null; error: string | null }) => boolean) =>
    await until('a report of the daemon', async () => {
      const [found] = (await client.fleet()).items
      return found && test(found) && found
    })
  const waits = /^revision 2 cannot run: the disk buffer of up holds events.*"renamed_from: up"/
  let daemon = sluice(args)
  t.teardown(async () => {
    daemon.child.kill('SIGKILL')
    await daemon.exit
  })
  await daemon.until(() => receiver.requests.length > 0)
  await client.pipelines.update(id, { config: pipeline('archive') })
  await client.pipelines.publish(id)
  t.match(await reported(({ error }) => /revision 2/.test(error ?? '')), { revision: 1, error: waits, behind: true })
  const status = await command(['status', '--config', path])
  t.match(status, { code: 1, stdout: /revision 2 of the pipeline cannot run here/ })
  t.match(status.stdout, /"renamed_from:\s+up"/)

  daemon.child.kill('SIGTERM')
  await daemon.exit
  daemon = sluice(args)
  await daemon.until(() => daemon.stderr.includes('"started"'))
  t.match(daemon.stderr, /SLUICE_REVISION_REFUSED.*running the cached revision/s)
  t.match(
    await reported(({ error }) => /revision 2/.test(error ?? '')),
    { revision: 1, error: waits },
    'at a start, too',
  )
  receiver.otherwise = 200
  await reported(({ revision, error }) => revision === 2 && error === null)
  const lines = () =>
    receiver.requests
      .filter(({ status }) => status === 200)
      .map(({ body }) => body)
      .join('')
  t.match(lines(), /one.*two/s)
  appendFileSync(join(folder, 'app.log'), 'three\n')
  await daemon.until(() => lines().includes('three'))
  t.notMatch(daemon.stderr, /SLUICE_ORPHANED/)
})

t.test('a daemon whose revision is refused on its host runs, says why, and takes a reload', async t => {
  const folder = testFolder(t, { service: {}, 'app.log': '' })
  const service = await startService(join(folder, 'service'))
  t.teardown(() => service.close())
  const { key } = service.made.service_account
  const client = service.client(key)
  const out = join(folder, 'out.ndjson')
  const pipeline = (path: string) => ({ destinations: { out: { type: 'file', inputs: ['ingest'], path } } })
  const { id } = await client.pipelines.create({ title: 'web', config: pipeline(out) })
  await client.pipelines.publish(id)
  writeFileSync(join(folder, 'key'), key, { mode: 0o600 })
  const path = join(folder, 'local.yaml')
  const local = (files: string[]) =>
    writeFileSync(
      path,
      `data_dir: ${folder}/state
metrics: { listen: 127.0.0.1:0 }
sources: { app: { type: file, include: [${folder}/app.log] } }
managed: { allow_files: ${JSON.stringify(files)}, poll_interval: 1s, report_interval: 1s }
`,
    )
  local([])
  const url = `${service.url}/v3/pipeline/${id}`
  const daemon = sluice(['run', '--pipeline', url, '--key-file', join(folder, 'key'), '--config', path])
  t.teardown(async () => {
    daemon.child.kill('SIGKILL')
    await daemon.exit
  })
  const reported = async (test: (found: { revision: number | null; error: string | null }) => boolean) =>
    await until('a report of the daemon', async () => {
      const [found] = (await client.fleet()).items
      return found && test(found) && found
    })

  const refused = await reported(({ error }) => error !== null)
  t.match(refused, { revision: null, health: 'failed', behind: true })
  t.match(refused.error, /^revision 1 cannot run: .*out\.ndjson is not among the files that the pipeline may use/)
  const fleet = fleetText((await client.fleet()).items, 120)
  t.match(fleet, /- of 1 +failed/)
  t.match(fleet, /^! .*: revision 1 cannot run: /m)

  const page = await daemon.until(() => /"url":"([^"]+)\/metrics"/.exec(daemon.stderr)?.[1])
  const ready = await fetch(`${page}/readyz`)
  t.equal(ready.status, 503)
  t.match(await ready.json(), { managed: { pipeline: id, service: service.url, published: 1, refused: 1 } })
  const metrics = await (await fetch(`${page}/metrics`)).text()
  t.match(metrics, /^sluice_managed_revision_refused 1$/m)
  t.match(metrics, /^sluice_managed_published_revision 1$/m)
  t.match(metrics, new RegExp(`^sluice_managed_info\\{pipeline="${id}"\\} 1$`, 'm'))
  t.match(metrics, /^sluice_ready 0$/m)
  const waiting = await command(['status', '--config', path])
  t.equal(waiting.code, 1, waiting.stderr)
  t.match(waiting.stdout, new RegExp(`^Pipeline ${id}, no revision runs \\(1 is published\\)`, 'm'))
  t.match(waiting.stdout, /revision 1\s+cannot\s+run:/)
  const alone = await command(['validate', path])
  t.match(alone, { code: 0, stdout: /ok \(the local part of a managed daemon: 1 source, .*0 destinations\)$/m })

  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('local configuration reloaded'))
  writeFileSync(path, 'sources: 1\n')
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('SLUICE_RELOAD_FAILED'))
  local([out])
  daemon.child.kill('SIGHUP')
  await daemon.until(() => daemon.stderr.includes('"started"'))
  await reported(({ revision, error }) => revision === 1 && error === null)
  t.equal(daemon.stderr.match(/SLUICE_REVISION_REFUSED/g)?.length, 1, 'the same refusal is logged once')

  const tap = sluice(['tap', 'app', '--config', path, '--limit', '1'])
  const writing = setInterval(() => appendFileSync(join(folder, 'app.log'), 'hello\n'), 50)
  t.equal(await tap.exit, 0, tap.stderr)
  clearInterval(writing)
  t.match(tap.stdout, /hello/)
  const line = new RegExp(`^Pipeline ${id}, revision 1; last contact \\S+ ago`, 'm')
  const [status, top, whole] = await Promise.all([
    command(['status', '--config', path]),
    command(['top', '--config', path, '--interval', '100ms', '--count', '1']),
    command(['validate', path]),
  ])
  t.match(status, { code: 0, stdout: line })
  t.match(top, { code: 0, stdout: line })
  t.match(whole, { code: 0, stdout: new RegExp(`revision 1 of pipeline ${id}, saved .*1 destination\\)$`, 'm') })
  t.same(valuesOf((await loadDaemonConfig(path, {})).destinations, 'id'), ['out'], 'for explain, resend and so on')

  await client.pipelines.update(id, { config: pipeline('/etc/x') })
  await client.pipelines.publish(id)
  await reported(({ error }) => error !== null)
  const behind = await command(['status', '--config', path])
  t.match(behind, { code: 1, stdout: /revision 2 of the pipeline cannot run here/ })
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})
