import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isRunning } from './support/bound.js'
import { built, checkout } from './support/checkout.js'
import { testFolder } from './support/folder.js'
import { needs } from './support/needs.js'
import { until } from './support/until.js'

t.test('an option that a program of `npm run` does not know, or a number that is none, is a sentence', async t => {
  const program = (path: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(built, path), ...args], { encoding: 'utf8' })
    return { status, stdout, stderr }
  }
  const throttle = 'test/property/throttle/main.js'
  const known = 'known are --runs, --from, --seed, --help\n'
  const refused = { status: 2, stdout: '' }
  t.same(program(throttle, '--rusn', '1'), { ...refused, stderr: `Unknown option '--rusn'; ${known}` })
  t.same(program(throttle, '--runs', 'ten'), { ...refused, stderr: '--runs must be a number, not ten\n' })
  t.match(program('test/ci/mutants.js', '--none'), {
    ...refused,
    stderr: /^Unknown option '--none'; known are --check, [^\n]*\n$/,
  })

  const script = spawnSync(process.execPath, ['scripts/package-library.mjs', '--none'], {
    cwd: checkout,
    encoding: 'utf8',
  })
  t.match(script, { status: 2, stderr: "Unknown option '--none'\n" })

  // The others have the same reader.
  const files = ['bench', 'test'].flatMap(folder =>
    (readdirSync(join(checkout, folder), { recursive: true }) as string[])
      .filter(name => name.endsWith('.ts'))
      .map(name => join(folder, name)),
  )
  const own = files.filter(path => /\bparseArgs\b.* from 'node:util'/.test(readFileSync(join(checkout, path), 'utf8')))
  t.same(own, ['test/support/program-options.ts'])
})

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
