import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../src/cli/commands.js'
import { findCommand, readCall } from '../../src/daemon/process/command-line.js'
import { EXIT } from '../../src/daemon/process/dispatch.js'
import { HOST } from '../support/address.js'
import { checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { sluice } from '../support/sluice.js'

/** Each unit with its configuration. */
const UNITS = {
  sluice: '/etc/sluice/sluice.yaml',
  'sluice@': '/etc/sluice/%i.yaml',
  'sluice-api': '/etc/sluice/service.yaml',
}
const MOST_EXPOSURE = 1.5

/** The values of a setting of a unit, in order. */
function settings(unit: string): (name: string) => string[] {
  const lines = readFileSync(join(checkout, `systemd/${unit}.service`), 'utf8').split('\n')
  return name => lines.filter(line => line.startsWith(`${name}=`)).map(line => line.slice(name.length + 1))
}

t.test('systemd accepts the units without a word, and finds them well confined', async t => {
  const analyze = needs(t, 'systemd-analyze')
  if (!analyze) return
  const folder = testFolder(t)
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(analyze, args, { encoding: 'utf8', timeout: 30_000 })
    return { status, stdout, stderr }
  }
  for (const unit of readdirSync(join(checkout, 'systemd'))) {
    const copy = join(folder, unit)
    cpSync(join(checkout, 'systemd', unit), copy)
    t.same(run('verify', '--recursive-errors=no', copy), { status: 0, stdout: '', stderr: '' }, unit)
    if (!unit.endsWith('.service')) continue
    const { status, stdout } = run('security', '--offline=true', `--threshold=${MOST_EXPOSURE * 10}`, copy)
    const exposure = stdout.split('\n').filter(line => line.startsWith('→'))
    t.equal(status, 0, `${unit}: ${exposure.join()}`)
  }
})

t.test('the units call the program as the program is', async t => {
  for (const [unit, config] of Object.entries(UNITS)) {
    const setting = settings(unit)
    const [start = '', ...others] = setting('ExecStart')
    t.same(others, [], `${unit}: one program`)
    const [check = ''] = setting('ExecStartPre')
    t.equal(check[0], '-', 'systemd restarts for ever what fails here, whatever its exit code; ExecStart fails with 78')
    for (const line of [check.slice(1), start]) {
      const argv = line.split(' ')
      t.same(argv.slice(0, 2), ['/usr/bin/env', 'sluice'], 'wherever it is installed')
      const [command, args] = findCommand(argv.slice(2), commands)
      t.doesNotThrow(() => readCall(command, args), line)
      t.match(line, config)
    }
    t.same(setting('RestartPreventExitStatus'), [String(EXIT.config)], 'a wrong configuration is not tried for ever')
    t.same([setting('Type'), setting('NotifyAccess')], [['notify'], ['all']], 'systemd-notify is not the main process')
    t.ok(setting('SystemCallFilter')[0]?.includes('@pkey'), 'node dies without it')
    t.same(setting('MemoryDenyWriteExecute'), [], 'node dies of it')
  }
  t.match(settings('sluice')('LoadCredential'), [/^access-key:\//])
})

t.test('an instance has the settings of the daemon, and its own configuration, state and metrics', async t => {
  const lines = (unit: string) =>
    readFileSync(join(checkout, `systemd/${unit}.service`), 'utf8')
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
  const [one, instance] = [lines('sluice'), lines('sluice@')]
  t.equal(instance.length, one.length)
  t.same(
    instance.filter((line, i) => line !== one[i]),
    [
      'Description=Sluice log shipper (%i)',
      'ExecStartPre=-/usr/bin/env sluice validate /etc/sluice/%i.yaml',
      'ExecStart=/usr/bin/env sluice run --config /etc/sluice/%i.yaml --metrics-on-socket',
      'SyslogIdentifier=sluice@%i',
      'StateDirectory=sluice@%i',
    ],
  )
})

t.test(
  'with the option of an instance and without metrics.listen, metrics are on the socket only, and the log says so',
  async t => {
    const config = (head: string) =>
      `${head}sources: { in: { type: stdin } }\ndestinations: { out: { type: blackhole, inputs: [in] } }\n`
    const folder = testFolder(t, {
      'without.yaml': config(''),
      'empty.yaml': config('metrics: {}\n'),
      'with.yaml': config(`metrics: { listen: ${HOST}:0 }\n`),
    })
    const served = async (file: string) => {
      const run = sluice(['run', '--config', file, '--metrics-on-socket'], { cwd: folder })
      run.child.stdin!.end()
      t.equal(await run.exit, 0)
      const lines = run.stderr.trim().split('\n')
      return lines.map(line => JSON.parse(line) as { msg: string }).filter(({ msg }) => msg.startsWith('metrics'))
    }
    for (const file of ['without.yaml', 'empty.yaml'])
      t.match(await served(file), [
        {
          socket: /sluice\.sock$/,
          msg: 'metrics are served on the socket only; to serve them at an address, set metrics.listen',
        },
      ])
    t.match(await served('with.yaml'), [{ url: `http://${HOST}:`, msg: 'metrics are served' }])
  },
)
