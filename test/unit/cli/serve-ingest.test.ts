import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import t from 'tap'
import { ServedIngest } from '../../../src/cli/serve-ingest.js'
import { components } from '../../../src/components.js'
import { parseConfig } from '../../../src/config/load.js'
import { Metrics } from '../../../src/engine/metrics.js'
import { as, openService } from '../../support/api-service.js'

const PAGE = { limit: 50 }

t.test('the files of a pipeline that was deleted are removed, also at the next start', async t => {
  const { service, first, store } = await openService(t)
  const me = await as(service, first.service_account.key)
  // Beside the store of the test, whose folder it is.
  const dataDir = join(t.testdirName, 'service')
  const text = `service: { data_dir: ${JSON.stringify(dataDir)} }`
  const { service: options } = parseConfig(text, 'service.yaml', { env: {}, components, serviceAlone: true })
  const config = { destinations: { out: { type: 'blackhole', inputs: ['ingest'] } } }
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const open = () => new ServedIngest(service, options!, { log, metrics: new Metrics(log), ownPorts: () => [] })
  const folderOf = (id: string) => join(dataDir, 'ingest', id)
  const make = async () => {
    const { id } = (await service.pipelines.create(me, { title: 'p', config })).document
    await service.pipelines.publish(me, id, {})
    mkdirSync(join(folderOf(id), 'state', 'dead-letter'), { recursive: true })
    return id
  }
  const [kept, now, later] = [await make(), await make(), await make()]
  mkdirSync(folderOf('orphan'))

  // The process is killed before it comes to the files.
  await service.pipelines.remove(me, later)
  t.equal((await store.list('removed-pipeline/')).length, 1)
  const served = open()
  await served.start()
  t.notOk(existsSync(folderOf(later)), 'left over from before')
  t.same(await store.list('removed-pipeline/'), [])
  t.match(
    logged.filter(({ code }) => code === 'SLUICE_ORPHANED_PIPELINE'),
    [{ folder: folderOf('orphan') }],
    'what belongs to nobody is named, and kept',
  )
  t.ok(existsSync(folderOf('orphan')))

  await service.pipelines.remove(me, now)
  await served.stop(AbortSignal.abort())
  for (let i = 0; i < 500 && existsSync(folderOf(now)); i++) await new Promise(resolve => setTimeout(resolve, 2))
  t.notOk(existsSync(folderOf(now)))
  t.ok(existsSync(folderOf(kept)))
  t.same(
    (await service.pipelines.list(me, PAGE)).items.map(({ id }) => id),
    [kept],
  )
})
