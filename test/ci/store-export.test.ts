import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { systemClock } from '../../src/lib/time.js'
import { Service } from '../../src/service/api/domain/service.js'
import { openState } from '../../src/service/api/store/state.js'
import { as } from '../support/api-service.js'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { startPostgres } from '../support/postgres.js'
import { startService } from '../support/service.js'

const quiet = pino({ enabled: false })

t.test('a store moves to PostgreSQL and back', async t => {
  const server = await startPostgres(t)
  if (!server) return
  const folder = testFolder(t)
  const first = await startService(join(folder, 'first'))
  const { manager } = first.made
  const set = await first.send('PUT', '/v3/secret/upstream', { key: manager.key, json: { value: 'not to be read' } })
  t.equal(set.status, 200, set.text)
  await first.close()
  const { url, password_file, tls } = server.options
  const postgresql = `store: { type: postgresql, url: '${url}', password_file: ${password_file}, tls: { ca_file: ${tls!.ca_file} } }`
  const configOf = (name: string, state: string, store = '') => {
    const path = join(folder, `${name}.yaml`)
    writeFileSync(path, `service:\n  listen: 127.0.0.1:0\n  data_dir: ${join(folder, state)}\n  ${store}\n`)
    return path
  }
  const configs = [
    configOf('first', 'first'),
    configOf('second', 'second', postgresql),
    configOf('third', 'third'),
  ] as const
  const run = async (verb: string, file: string, config: string) =>
    await command(['admin', verb, join(folder, file), '--config', config])
  t.match(await run('export', 'one', configs[0]), { code: 0, stdout: /one: \d+ records\. .*first\/secret/ })
  t.match(await run('import', 'one', configs[1]), {
    code: 1,
    stderr: /second\/secret is missing; copy the file "secret"/,
  })
  for (const state of ['second', 'third']) {
    mkdirSync(join(folder, state), { recursive: true })
    copyFileSync(join(folder, 'first/secret'), join(folder, state, 'secret'))
  }
  t.match(await run('import', 'one', configs[1]), { code: 0, stdout: /imported and compared \d+ records/ })
  t.match(await run('import', 'one', configs[1]), { code: 1, stderr: /the store has records in the table enterprise/ })
  t.match(await run('export', 'two', configs[1]), { code: 0 })
  t.match(await run('import', 'two', configs[2]), { code: 0 })
  t.match(await run('export', 'three', configs[2]), { code: 0 })
  const [one, two, three] = ['one', 'two', 'three'].map(name => readFileSync(join(folder, name), 'utf8'))
  t.match(one, '"secret",{"account_id":')
  t.notMatch(one, /not to be read/)
  t.equal(two, one, 'the same in PostgreSQL')
  t.equal(three, one, 'and the same after it')

  for (const [state, store] of [
    ['second', server.options],
    ['third', { type: 'embedded' }],
  ] as const) {
    const opened = await openState(join(folder, state), randomBytes, { log: quiet, store })
    t.teardown(() => opened.close())
    const machine = { clock: systemClock, random: randomBytes, log: quiet, components: [], background: false }
    await as(await Service.open({ ...machine, ...opened }), manager.key)
    t.pass(`a key from before works in ${state}`)
  }
})
