import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { bound } from '../support/bound.js'
import { sluiceMain } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'
import { until } from '../support/until.js'

/** Runs a command as process 1 of a PID namespace, as in a container. */
const INSIDE = ['--pid', '--fork', '--mount-proc', '--kill-child']

t.test('of two daemons in different PID namespaces, one has the data_dir', async t => {
  const tried = spawnSync('unshare', [...INSIDE, 'true'], { encoding: 'utf8' })
  if (tried.status !== 0) {
    const reason = `PID namespaces cannot be made here: ${tried.error?.message ?? tried.stderr}`
    return process.env.CI ? t.pass(`left out: ${reason}`) : t.pass('needs unshare', { skip: reason })
  }
  const folder = testFolder(t, {
    'sluice.yaml': `
data_dir: ./state
metrics: false
sources: { a: { type: demo } }
destinations: { b: { type: blackhole, inputs: [a] } }
`,
  })
  const command = ['run', '--config', join(folder, 'sluice.yaml')]
  const inside = () =>
    spawn(...bound('unshare', [...INSIDE, process.execPath, sluiceMain, ...command]), {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
  const socket = join(folder, 'state', 'sluice.sock')
  const first = inside()
  await until('the first runs', () => existsSync(socket))
  for (const another of [inside, () => sluice(command, { cwd: folder }).child]) {
    const second = another()
    let log = ''
    second.stderr?.setEncoding('utf8').on('data', text => (log += text))
    t.same((await once(second, 'close'))[0], 1)
    t.match(log, /in use by another sluice, process 1 of another PID namespace/)
  }
  first.kill('SIGKILL')
  await once(first, 'exit')
  const third = sluice(command, { cwd: folder })
  await third.until(() => third.stderr.includes('"msg":"started"'))
  third.child.kill('SIGTERM')
  t.equal(await third.exit, 0, 'a lock of a namespace that has ended does not count')
})
