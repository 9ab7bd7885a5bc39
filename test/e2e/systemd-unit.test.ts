import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findCommand, readCall } from '../../src/cli/command-line.js'
import { commands } from '../../src/cli/commands.js'
import { EXIT } from '../../src/cli/dispatch.js'
import { checkout } from '../support/checkout.js'
import { needs } from '../support/needs.js'

const unit = join(checkout, 'systemd/sluice.service')
const MOST_EXPOSURE = 2

/** The values of a setting, in order. */
function setting(name: string): string[] {
  const lines = readFileSync(unit, 'utf8').split('\n')
  return lines.filter(line => line.startsWith(`${name}=`)).map(line => line.slice(name.length + 1))
}

t.test('systemd accepts the unit without a word, and finds it well confined', async t => {
  const analyze = needs(t, 'systemd-analyze')
  if (!analyze) return
  const folder = t.testdir({})
  const copy = join(folder, 'sluice.service')
  cpSync(unit, copy)
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(analyze, args, { encoding: 'utf8', timeout: 30_000 })
    return { status, stdout, stderr }
  }
  t.same(run('verify', '--man=no', '--recursive-errors=no', copy), { status: 0, stdout: '', stderr: '' })
  const { status, stdout } = run('security', '--offline=true', `--threshold=${MOST_EXPOSURE * 10}`, copy)
  t.equal(
    status,
    0,
    stdout
      .split('\n')
      .filter(line => line.startsWith('→'))
      .join(),
  )
})

t.test('the unit calls the program as the program is', async t => {
  t.same(setting('ExecStartPre'), [], 'systemd restarts for ever what fails there, whatever its exit code')
  t.equal(setting('ExecStart').length, 1)
  for (const line of setting('ExecStart')) {
    const argv = line.split(' ')
    t.same(argv.slice(0, 2), ['/usr/bin/env', 'sluice'], 'wherever it is installed')
    const [command, args] = findCommand(argv.slice(2), commands)
    t.doesNotThrow(() => readCall(command, args), line)
    t.ok(line.includes('/etc/sluice/sluice.yaml'))
  }
  t.same(setting('RestartPreventExitStatus'), [String(EXIT.config)], 'a wrong configuration is not tried for ever')
  t.match(setting('LoadCredential'), [/^access-key:\//])
  t.ok(
    setting('SystemCallFilter').every(filter => filter.includes('@pkey')),
    'node dies without it',
  )
  t.same(setting('MemoryDenyWriteExecute'), [], 'node dies of it')
})
