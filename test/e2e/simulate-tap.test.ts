import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { SimulationResult } from '../../src/cli/check/simulate/result.js'
import { command } from '../support/cli.js'
import { callSimulate } from '../support/simulate.js'
import { sluice } from '../support/sluice.js'

t.test('--tap tries throttles on what a throttle of a running daemon gets', async t => {
  // The path of a socket has to be short.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const log = join(folder, 'app.log')
  const config = join(folder, 'sluice.yaml')
  writeFileSync(log, '')
  writeFileSync(
    config,
    `data_dir: ${folder}/state
metrics: false
shutdown_timeout: 1s
sources: { app: { type: file, include: [${log}], decode: json } }
processors:
  wanted: { type: filter, inputs: [app], condition: "if (NOT .app equal 'noise')" }
  lim: { type: throttle, inputs: [wanted], limit: 2, window: 1h, key_field: .app }
destinations: { out: { type: blackhole, inputs: [lim] } }
`,
  )
  const daemon = sluice(['run', '--config', config], { cwd: folder })
  await daemon.until(() => daemon.stderr.includes('"msg":"started"'))
  let n = 0
  const writing = setInterval(() => {
    for (const app of ['a', 'b', 'noise', 'a']) appendFileSync(log, `{"app":"${app}","n":${n++},"m":"# x"}\n`)
  }, 10)
  t.teardown(() => clearInterval(writing))

  const tap = await command(['simulate', '--tap=lim', '--for=3s', '-c', config, '--limit=2,5,100000', '--json'])
  t.equal(tap.code, 0, tap.stderr)
  const result = JSON.parse(tap.stdout) as SimulationResult
  t.equal(result.complete, true)
  t.ok(result.events > 12, `${result.events} events`)
  const [a, b] = ['a', 'b'].map(key => result.results[2]!.by_key.find(row => row.key === key)!.passed)
  t.equal(a! + b!, result.events, 'the daemon applies what is before the throttle')
  t.ok(Math.abs(a! - 2 * b!) <= 3, `${a} and ${b}`)
  t.same(
    result.results.map(({ limit, passed, window_ms }) => [limit, passed, window_ms]),
    [
      [2, 4, 3_600_000],
      [5, 10, 3_600_000],
      [100_000, result.events, 3_600_000],
    ],
  )
  t.match(result.notes, [{ name: 'time' }, { name: 'tap', text: 'no event was skipped' }])
  t.equal(result.time, null)

  const interrupted = sluice(['simulate', '--tap', 'lim', '--for=1h', '-c', config, '--limit=3'])
  await interrupted.until(() => interrupted.stderr.includes('tapping wanted for 1h 0m'))
  const seen = n
  await interrupted.until(() => n > seen + 1200)
  interrupted.child.kill('SIGINT')
  t.equal(await interrupted.exit, 0, interrupted.stderr)
  t.match(interrupted.stdout, /^passed +6 /m, 'Ctrl-C ends it')

  for (const [args, code, message] of [
    [['--tap=lim'], 2, '--tap needs --for DURATION'],
    [['--tap=other', '--for=1s'], 2, '--tap: there is no component other'],
    [['--tap=lim', '--for=1s', '--suggest=keep 9%'], 2, '--tap sees each event once'],
    [['--tap=lim', '--for=1s', 'x.log'], 2, '--tap reads from a daemon'],
    [['--tap=lim', '--for=1s', '--key=.none'], 1, 'no event has the key .none'],
    [['--tap=lim', '--for=1s', '--socket=/none'], 1, 'there is no daemon at /none'],
  ] as const) {
    const got = await callSimulate(['-c', config, ...args])
    t.equal(got.code, code, got.stderr)
    t.match(got.stderr, message)
  }

  const left = sluice(['simulate', '--tap=lim', '--for=1h', '-c', config])
  await left.until(() => left.stderr.includes('tapping'))
  daemon.child.kill('SIGKILL')
  t.equal(await left.exit, 1)
  t.match(left.stderr, 'the daemon has ended')
})
