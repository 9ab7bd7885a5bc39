import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../src/cli/commands.js'
import { findCommand, readCall } from '../../src/terminal/command-line.js'
import { EXIT } from '../../src/terminal/dispatch.js'
import { checkout } from '../support/checkout.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'

const UNITS = ['sluice', 'sluice-api']
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
  for (const unit of UNITS) {
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
      t.match(line, unit === 'sluice' ? '/etc/sluice/sluice.yaml' : '/etc/sluice/service.yaml')
    }
    t.same(setting('RestartPreventExitStatus'), [String(EXIT.config)], 'a wrong configuration is not tried for ever')
    t.same([setting('Type'), setting('NotifyAccess')], [['notify'], ['all']], 'systemd-notify is not the main process')
    t.ok(setting('SystemCallFilter')[0]?.includes('@pkey'), 'node dies without it')
    t.same(setting('MemoryDenyWriteExecute'), [], 'node dies of it')
  }
  t.match(settings('sluice')('LoadCredential'), [/^access-key:\//])
})
