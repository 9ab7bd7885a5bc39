import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { OUT, resetStage, stage, startIngestHost } from '../../../support/ingest-host.js'
import { until } from '../../../support/until.js'

/** Throttles with `persist` in published pipelines. */

const line = (n: number) => `{"n":${n}}`

t.beforeEach(resetStage)

t.test('buckets that persist are kept over revisions, other names and restarts, and count on the disk', async t => {
  const throttled = (id: string, more = {}) => ({
    processors: { [id]: { type: 'throttle', inputs: ['ingest'], limit: 3, window: '1 Hours', persist: true, ...more } },
    destinations: { out: { ...OUT, inputs: [id] } },
  })
  const first = await startIngestHost(t)
  await first.publish(throttled('few'))
  for (let n = 1; n <= 2; n++) t.match(await first.post(line(n)), { status: 202 })
  await first.publish(throttled('few', { max_keys: 500 }))
  for (let n = 3; n <= 5; n++) t.match(await first.post(line(n)), { status: 202 })
  t.same(stage.got, [line(1), line(2), line(3)])
  await first.stop()
  t.ok(existsSync(join(first.folder, 'p/state/throttle/few')))
  const again = await startIngestHost(t, { folder: first.folder })
  await again.publish(throttled('some', { limit: 4, renamed_from: 'few' }))
  for (let n = 6; n <= 7; n++) t.match(await again.post(line(n)), { status: 202 })
  t.same(stage.got.slice(3), [line(6)])
  const onDisk = async () => Number(/^sluice_ingest_disk_bytes (\d+)$/m.exec(String(await again.metrics.render()))?.[1])
  // A scrape does not wait long for what has to be read from a disk.
  await until(async () => (await onDisk()) > 0)
  await again.host.remove('p')
  t.notOk(existsSync(join(first.folder, 'p')))
  await until(async () => (await onDisk()) === 0)
  await again.stop()
})

t.test('a throttle whose buckets find no room on the disk of the account goes on without', async t => {
  const { publish, post, metrics, logs, stop } = await startIngestHost(t, { maxDiskPerAccount: 200 })
  await publish({
    processors: { few: { type: 'throttle', inputs: ['ingest'], limit: 1, window: '1 Hours', persist: true } },
    destinations: { out: { ...OUT, inputs: ['few'] } },
  })
  for (let n = 1; n <= 2; n++) t.match(await post(line(n)), { status: 202 })
  t.same(stage.got, [line(1)])
  const unsaved = /^sluice_throttle_state_unsaved\{[^}]*\} 1$/m
  await until(async () => unsaved.test(String(await metrics.render())))
  t.match(logs(), /SLUICE_BUCKETS_NOT_SAVED.*the account has no disk space left/)
  await stop()
})
