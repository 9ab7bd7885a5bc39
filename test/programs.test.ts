import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { isRunning } from './support/bound.js'
import { built } from './support/checkout.js'
import { testFolder } from './support/folder.js'
import { needs } from './support/needs.js'
import { until } from './support/until.js'

t.test('a daemon does not outlive a test that is killed', async t => {
  if (!needs(t, 'setpriv')) return
  const folder = testFolder(t, {
    'in.log': 'one\n',
    'sluice.yaml': `data_dir: state
metrics: false
sources: { in: { type: file, include: [in.log] } }
destinations: { out: { type: file, inputs: [in], path: out.log } }
`,
  })
  const script = `
    import { sluice } from ${JSON.stringify(join(built, 'test/support/sluice.js'))}
    const daemon = sluice(['run', '--config', 'sluice.yaml'], { cwd: ${JSON.stringify(folder)} })
    await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
    console.log(daemon.pid)
  `
  const test = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => test.kill('SIGKILL'))
  const [printed] = (await once(test.stdout, 'data')) as [Buffer]
  const pid = Number(printed.toString())
  t.teardown(() => isRunning(pid) && process.kill(pid, 'SIGKILL'))
  t.ok(isRunning(pid))
  test.kill('SIGKILL')
  await until('the daemon to end', () => !isRunning(pid))
})
