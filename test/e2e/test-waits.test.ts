import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'

/** `sluice test` with throttles in which events wait. Nothing takes as long as it would in the daemon. */

const configOf = (throttle: string, tests: string) => `
data_dir: ./state
sources:
  app: { type: file, include: [./app.log], decode: json }
processors:
  limit_app: { type: throttle, inputs: [app], limit: 2, ${throttle} }
destinations:
  out: { type: blackhole, inputs: [limit_app, limit_app.discarded] }
tests:
  - name: waits
${tests}`

async function passes(t: Test, config: string) {
  const folder = testFolder(t, { 'sluice.yaml': config })
  const { code, stdout, stderr } = await command(['test', 'sluice.yaml'], { cwd: folder })
  t.equal(code, 0, stdout + stderr)
}

t.test('an event over the limit waits for room, or is discarded if there will be none in time', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: a, n: 3 }, { app: b, n: 4 }, { app: a, n: 5 }] }
      - { into: app, events: [{ app: a, n: 6 }] }
      - { into: app, at: 25 Seconds, events: [{ app: a, n: 7 }] }
    expect:
      limit_app: [{ n: 1 }, { n: 2 }, { n: 4 }, { n: 3 }, { n: 5 }, { n: 7 }]
      limit_app.discarded: [{ n: 6 }]
`
  await passes(t, configOf('window: 10 Seconds, key_field: .app, over_limit: { wait: 12 Seconds }', tests))
})

t.test('a step in the meantime comes before what waits, if it is of another bucket', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ app: a, n: 1 }, { app: a, n: 2 }, { app: a, n: 3 }] }
      - { into: app, at: 9 Seconds, events: [{ app: b, n: 4 }] }
      - { into: app, at: 11 Seconds, events: [{ app: b, n: 5 }] }
    expect: { limit_app: [{ n: 1 }, { n: 2 }, { n: 4 }, { n: 3 }, { n: 5 }] }
`
  await passes(t, configOf('window: 10 Seconds, key_field: .app, over_limit: { wait: 12 Seconds }', tests))
})

t.test('a step may be backlog, which is paced', async t => {
  const tests = `
    steps:
      - { into: app, backlog: true, events: [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }] }
      - { into: app, at: 3 Hours, events: [{ n: 6 }, { n: 7 }, { n: 8 }] }
    expect:
      limit_app: [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }, { n: 5 }, { n: 6 }, { n: 7 }]
      limit_app.discarded: [{ n: 8 }]
`
  await passes(t, configOf('window: 1 Hours, max_delay: 1 Days, on_backlog: pace', tests))
})

t.test('summaries come when their interval is over in the time of the test', async t => {
  const tests = `
    steps:
      - { into: app, events: [{ n: 1 }, { n: 2 }, { n: 3 }] }
      - { into: app, at: 15 Seconds, events: [{ n: 4 }] }
    expect: { limit_app.discarded: [{ n: 3 }, { message: throttled }, { n: 4 }, { message: throttled }] }
`
  await passes(t, configOf('window: 1 Minutes, summary: { every: 10 Seconds, to: discarded }', tests))
})
