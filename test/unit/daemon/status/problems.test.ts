import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { DeliveryError } from '../../../../src/core/errors.js'
import { problemsOf as allOf, type Observed } from '../../../../src/daemon/status/problems.js'
import { Rates } from '../../../../src/daemon/status/rates.js'
import { countDeadLetters } from '../../../../src/engine/flow/dead-letters.js'
import { openDeadLetters } from '../../../../src/engine/run/dead-letter/queue.js'
import { resendCommand } from '../../../../src/engine/run/dead-letter/resend-command.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { batchOf } from '../../../support/batches.js'
import { registerFacts } from '../../../support/file-facts.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'

const log = pino({ level: 'silent' })
const refused = new DeliveryError('422: no', { failure: 'reject', reason: 'status_422', status: 422 })
const problemsOf = (seen: Observed) => allOf(seen).problems

function view(
  destinations: readonly object[],
  metrics: Metrics = new Metrics(log),
  components: Observed['components'] = [],
): Observed {
  return {
    wall: 0,
    metrics,
    components,
    destinations: destinations as Observed['destinations'],
    sources: [],
    processors: [],
  }
}

/** Metrics in which components have discarded events. */
function discarding(
  ...all: readonly (readonly [id: string, kind: 'destination' | 'processor', reason: string, events: number])[]
) {
  const metrics = new Metrics(log)
  for (const [id, kind, reason, events] of all) metrics.component(id, kind, 'x').discarded(reason, events, 1)
  return metrics
}

t.test('what a destination rejects is lost, or a matter of its dead letters', async t => {
  const metrics = discarding(
    ['kept', 'destination', 'status_400', 3],
    ['dropped', 'destination', 'status_400', 2],
    ['kept', 'destination', 'given_back', 9],
  )
  countDeadLetters(metrics.component('kept', 'destination', 'x'), 'status_400', 3)
  const problems = problemsOf(view([], metrics))
  t.match(problems, [
    {
      component: 'dropped',
      what: 'dropped has discarded 2 events since the daemon started: status_400',
      todo: /are lost.*on_reject is discard/,
    },
  ])
  t.equal(problems.length, 1, 'not what was kept and sent again, nor what a reload gave back')
})

t.test('what a processor discards on purpose is no problem, unless it describes the loss', async t => {
  const wanted = ['throttled', 'filtered', 'sampled', 'duplicate', 'dropped', 'empty', 'of_a_plugin']
  const metrics = discarding(...wanted.map(reason => ['p', 'processor', reason, 4] as const))
  t.same(problemsOf(view([], metrics)), [])
  metrics.component('p', 'processor', 'x').describeLoss('empty', 'Fill it.')
  t.match(problemsOf(view([], metrics)), [
    { component: 'p', what: /^p has discarded 4 events .*: empty$/, todo: 'Fill it.' },
  ])
})

t.test('a loss is a problem until nothing was lost for ten minutes, and then a notice', async t => {
  const time = new ManualTime()
  const metrics = discarding(['up', 'destination', 'buffer_full', 4])
  const rates = new Rates(() => metrics.components.values(), time)
  const seen = () => allOf({ ...view([], metrics), wall: time.wall(), rates })
  const minutes = async (count: number) => {
    for (let i = 0; i < 12 * count; i++) {
      await time.advance(5000)
      rates.note()
    }
  }
  const first = seen()
  t.match(first, { problems: [{ what: /^up has discarded 4 events/, detail: /^The last one at / }], notices: [] })
  await minutes(9)
  metrics.component('up', 'destination', 'x').discarded('buffer_full', 1, 1)
  rates.note()
  await minutes(10)
  const later = seen()
  t.match(later, { problems: [{ what: /^up has discarded 5 events/ }], notices: [] })
  t.not(later.problems[0]!.detail, first.problems[0]!.detail)
  await minutes(1)
  t.match(seen(), {
    problems: [],
    notices: [{ what: /^up has discarded 5 events/, detail: later.problems[0]!.detail }],
  })
  metrics.component('up', 'destination', 'x').discarded('buffer_full', 1, 1)
  t.match(seen(), { problems: [{ what: /^up has discarded 6 events/ }], notices: [] })
})

t.test('a processor that passes on most events because it could not process them', async t => {
  const seen = (failed: number, discards = 0) => {
    const metrics = discarding()
    const processor = metrics.component('p', 'processor', 'parse')
    processor.received.events = 6000
    processor.failures.set('processing', failed)
    processor.describeLoss('processing_failed', 'They are lost.')
    if (discards > 0) processor.discarded('processing_failed', discards, discards)
    return problemsOf(view([], metrics))
  }
  t.match(seen(3000), [{ what: 'p could not process 3.00k of its 6.00k events', todo: /\.processing_error/ }])
  t.same(seen(2999), [], 'a few lines that are different')
  const [problem, other] = seen(4000, 4000)
  t.match(problem, { what: /^p has discarded/ })
  t.equal(other, undefined, 'which is said of what is discarded')
})

t.test('facts: problems gravest first, and by component', async t => {
  const metrics = new Metrics(log)
  const fact = (id: string, name: string, gravity: 'unread' | 'blocked' | 'notice', value = 1) =>
    metrics.component(id, 'source', 'x').fact({
      name,
      help: 'Help.',
      read: () => [{ labels: { file: 'a' }, value }],
      problem: (value, { id, kind, labels }) =>
        value > 0 && { gravity, what: `${id}: ${name}`, todo: `${kind} ${labels.file} ${value}` },
    })
  fact('b', 'first', 'unread')
  fact('a', 'second', 'unread')
  fact('a', 'first', 'unread', 7)
  fact('a', 'third', 'blocked')
  fact('a', 'fourth', 'blocked', 0)
  fact('a', 'fifth', 'notice')
  metrics.fact({
    name: 'of_the_daemon',
    help: 'Help.',
    read: () => 1,
    problem: () => ({ gravity: 'reload', what: 'daemon', todo: 'x' }),
  })
  const { problems, notices } = allOf(view([], metrics))
  t.same(problems[0], { what: 'daemon', todo: 'x' })
  t.same(
    problems.map(({ component, what, todo }) => [component, what, todo]),
    [
      [undefined, 'daemon', 'x'],
      ['a', 'a: third', 'source a 1'],
      ['b', 'b: first', 'source a 1'],
      ['a', 'a: first', 'source a 7'],
      ['a', 'a: second', 'source a 1'],
    ],
  )
  t.same(notices, [{ component: 'a', what: 'a: fifth', todo: 'source a 1' }])
  t.match(await metrics.samples(), { first: [{ labels: { component_id: 'b', file: 'a' } }, { value: 7 }] })
})

t.test('dead letters: how many, how old, and commands that work', async t => {
  const folder = testFolder(t, { "it's.yaml": 'data_dir: /elsewhere' })
  const config = join(folder, "it's.yaml")
  const about = { config, data_dir: '/var/lib/x' }
  const quoted = config.replace("'", "'\\''")
  t.equal(
    resendCommand('up', about),
    `sluice resend --config '${quoted}' --destination up /var/lib/x/dead-letter/up.ndjson`,
  )
  t.equal(resendCommand('up', undefined), 'sluice resend --config FILE --destination up')
  const clock = { now: () => 0, wall: () => 1000 }
  for (const [kind, cause] of [
    ['destination', /^The destination rejected them\. /],
    ['processor', /^They could not be processed\. /],
  ] as const) {
    const metrics = new Metrics(log)
    const dataDir = testFolder(t)
    const letters = openDeadLetters('up', dataDir, { log, clock, metrics: metrics.component('up', kind, 'x') })
    const seen = async (wall: number) => {
      clock.wall = () => wall
      await metrics.samples()
      return problemsOf({ ...view([], metrics), about })
    }
    t.same(await seen(1000), [])
    await letters.write([batchOf(Array.from({ length: 12 }, () => 'x'))], refused)
    const command = resendCommand('up', about)
    t.match(await seen(7_381_000), [
      {
        component: 'up',
        what: 'up: 12 events in the dead-letter queue, the oldest for 2h 3m',
        todo: cause,
        commands: [`${command} --dry-run`, command],
      },
    ])
    rmSync(join(dataDir, 'dead-letter'), { recursive: true })
    writeFileSync(join(dataDir, 'dead-letter'), 'in the way')
    await t.rejects(letters.write([batchOf(['x'])], refused))
    t.match(await seen(1000), [{ what: 'up: its dead-letter queue cannot be written', todo: /SLUICE_DEAD_LETTER/ }])
  }
})

t.test('an outage: since when, how often, and when it is tried again', async t => {
  const wall = Date.parse('2026-11-21T14:03:20Z')
  const at = (seconds: number) => new Date(wall + seconds * 1000).toISOString()
  const destination = {
    id: 'up',
    state: 'retrying',
    reason: '503',
    since: at(-125),
    failures: 12,
    last_failure: at(-8),
  }
  const detail = (more: object) => problemsOf({ ...view([{ ...destination, ...more }]), wall })[0]!.detail
  const clock = (seconds: number) => new Date(wall + seconds * 1000).toTimeString().slice(0, 8)
  t.equal(
    detail({ next_attempt: at(8), oldest_event: at(-130) }),
    `Since ${clock(-125)}, 12 failed attempts, the last at ${clock(-8)}, the next at ${clock(8)}. The oldest waiting event is from ${clock(-130)}.`,
  )
  t.equal(detail({ failures: 1, next_attempt: at(0) }), `Since ${clock(-125)}, 1 failed attempt, the next one now.`)
  t.match(detail({ since: at(-3 * 86_400) }), /^Since 2026-11-1\d \d\d:\d\d:\d\d, 12/)

  const after = (sent: number) => {
    const metrics = new Metrics(log)
    metrics.component('up', 'destination', 'http').sent(sent, sent)
    return problemsOf(view([{ ...destination, state: 'failing' }], metrics))[0]!.detail
  }
  t.match(after(0), /12 failed attempts.* It has delivered nothing since the daemon started\.$/)
  t.notMatch(after(1), /delivered nothing/)
})

t.test('nobody is told that no events are lost while some of them are dropped', async t => {
  const waits = [{ id: 'up', state: 'holding', reason: '401' }] as Observed['destinations']
  const [held] = problemsOf(view(waits))
  t.match(held, { what: 'up is holding: 401', todo: /^No events are lost/ })
  for (const state of ['holding', 'retrying']) {
    const some = [{ id: 'up', state, reason: 'no' }] as Observed['destinations']
    const metrics = discarding(['up', 'destination', 'buffer_full', 5])
    const [first, second] = problemsOf(view(some, metrics))
    t.match(first, { what: `up is ${state}: no`, todo: /did not fit were discarded/ })
    t.match(second, { what: /^up has discarded 5 events .*: buffer_full$/ })
  }
})

t.test('deleted files that are not delivered: events are safe only while the daemon runs', async t => {
  const up = { id: 'up', type: 'http', state: 'retrying' as const, reason: 'away' }
  const deleted = (bytes: number) => {
    const metrics = new Metrics(log)
    registerFacts(metrics.component('in', 'source', 'file'), { deleted: bytes })
    return view([up], metrics)
  }
  t.match(problemsOf(deleted(0)), [{ todo: /^No events are lost\. / }])
  t.match(problemsOf(deleted(12_000)), [
    { todo: /^No events are lost while the daemon runs\. / },
    { what: /^in: 12\.0kB of deleted files are not delivered/, todo: /^A restart loses them/ },
  ])
})

t.test(
  'a source that cannot read again: without a disk buffer, events are safe only while the daemon runs',
  async t => {
    const up = { id: 'up', type: 'http', state: 'holding' as const, reason: '401' }
    const from = (type: string) => [{ id: 'in', kind: 'source', type }]
    const isSafe = (type: string, more = {}) =>
      /^No events are lost\. /.test(problemsOf(view([{ ...up, ...more }], undefined, from(type)))[0]!.todo)
    t.same(
      ['file', 'journald', 'tcp', 'stdin'].map(type => isSafe(type)),
      [true, true, false, false],
    )
    t.ok(isSafe('tcp', { buffer: { events: 0, used_bytes: 0, max_bytes: 1_000_000_000 } }))
  },
)
