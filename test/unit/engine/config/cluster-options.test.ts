import { join } from 'node:path'
import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { readLimitsSync } from '../../../../src/components/processors/throttle/limits-file.js'
import type { RuledOptions } from '../../../../src/components/processors/throttle/options.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { testFolder } from '../../../support/folder.js'
import { problemsOf } from '../../../support/problems.js'

/** The problems of a throttle with these options, with their places. */
function problemsWith(options: string): string[] {
  const text = `sources: { in: { type: stdin, decode: json } }
processors:
  shared:
    type: throttle
    inputs: [in]
    key_field: .app
${options.replace(/^/gm, '    ')}
destinations: { out: { type: stdout, inputs: [shared] } }
`
  const read = () => parseConfig(text, 'c.yaml', { env: {}, components })
  return problemsOf(read, { format: ({ line, path, message }) => `${line} ${path}: ${message}` })
}

const REDIS = 'scope: cluster\nredis: { url: "redis://127.0.0.1:1" }\nexpected_members: 2\n'

t.test('limits of every kind can be shared, and those that cannot are refused where they are', async t => {
  const folder = testFolder(t, {
    'rules.yaml': '- { key: a, limit: 1 }\n- { key: b, limit: 1, window_mode: sliding }\n',
  })
  const fine = [
    'limit: 5\nwindow: 1s',
    'limit_bytes: 5KB\nwindow: 1s',
    'limit: 5\ncost: .bytes\nwindow: 1s\nwindow_mode: gcra\nburst: 2',
    'limit: 5\nwindow: 1s\nalso: [{ limit: 50, window: 1m, window_mode: aligned }]',
    'quota: { limit_bytes: 5GB, per: day, time_zone: Europe/Berlin }',
    'limit: 5\nwindow: 1s\nlimits: [{ key: "batch-*", limit: unlimited }]',
  ]
  for (const options of fine) t.same(problemsWith(`${REDIS}${options}`), [], options)
  const sliding = /sliding cannot be combined with scope: cluster, .*; use gcra/
  const refused: [string, string, RegExp][] = [
    ['limit: 5\nwindow: 1s\nwindow_mode: sliding', '12 processors.shared.window_mode', sliding],
    [
      'limit: 5\nwindow: 1s\nalso:\n  - { limit: 50, window: 1m }\n  - { limit: 50, window: 1m, window_mode: sliding }',
      '14 processors.shared.also[1].window_mode',
      sliding,
    ],
    [
      'limit: 5\nwindow: 1s\nlimits:\n  - { key: a, limit: 9, window_mode: sliding }',
      '13 processors.shared.limits[0].window_mode',
      sliding,
    ],
    ['limit: 5\nwindow: 1s\ntime_field: .ts', '12 processors.shared.time_field', /follow the clock of the server/],
    ['limit: 5\nwindow: 1s\ntime_field: auto', '12 processors.shared.time_field', /follow the clock of the server/],
  ]
  for (const [options, place, reason] of refused) {
    const problems = problemsWith(`${REDIS}${options}`)
    t.equal(problems.length, 1, options)
    t.ok(problems[0]!.startsWith(`${place}: `), problems[0]!)
    t.match(problems[0], reason)
  }
  const cluster = { scope: 'cluster', limit: 5, window: 1000, window_mode: 'fixed', key_field: [{ text: '.app' }] }
  const read = readLimitsSync(join(folder, 'rules.yaml'), cluster as never as RuledOptions)
  t.match(read, { problems: [{ line: 2, path: [1, 'window_mode'], message: sliding }] }, 'a rule of a file')
})

t.test('what matters in a group alone is refused without one', async t => {
  const own = ['group: a', 'accuracy: exact', 'on_backend_failure: pass', 'expected_members: 3']
  for (const option of [...own, 'redis: { url: "redis://127.0.0.1:1" }'])
    t.match(problemsWith(`limit: 5\nwindow: 1s\n${option}`), [/has no effect without scope: cluster/], option)
  t.match(problemsWith('limit: 5\nwindow: 1s\nscope: cluster'), [/redis: is required with scope: cluster/])
})
