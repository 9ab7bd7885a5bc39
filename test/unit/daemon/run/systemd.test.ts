import { pino } from 'pino'
import t from 'tap'
import { type Notice, Notifier } from '../../../../src/daemon/systemd/notifier.js'
import { CHECKS, DaemonHealth, daemonState, type WatchedService } from '../../../../src/daemon/systemd/service-state.js'
import { Systemd } from '../../../../src/daemon/systemd/systemd.js'
import type { Watched } from '../../../../src/engine/run/measure/progress.js'
import { turns } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const silent = pino({ level: 'silent' })

/** What was said, by name; the clock as text is left out. */
const named = (notices: readonly Notice[]) =>
  notices.map(({ MONOTONIC_USEC, EXTEND_TIMEOUT_USEC, ...rest }) =>
    MONOTONIC_USEC === undefined ? rest : { ...rest, MONOTONIC_USEC: /^\d+$/.test(MONOTONIC_USEC) },
  )

/** Somebody who is told, at a pace of the test's. */
function told() {
  const sent: Notice[] = []
  const under: { resolve: () => void; reject: (error: Error) => void }[] = []
  const send = (notice: Notice) => {
    sent.push(notice)
    return new Promise<void>((resolve, reject) => under.push({ resolve, reject }))
  }
  const settle = async (error?: Error) => {
    const one = under.shift()
    if (error) one?.reject(error)
    else one?.resolve()
    await turns()
  }
  return { sent, send, settle, under }
}

/** Timers that ring when the test says so. */
function bells() {
  const rings: { ms: number; fn: () => void; over: boolean }[] = []
  const set = (ms: number, fn: () => void) => {
    const ring = { ms, fn, over: false }
    rings.push(ring)
    return () => {
      ring.over = true
    }
  }
  const ring = async (ms: number) => {
    for (const one of rings) if (one.ms === ms && !one.over) one.fn()
    await turns()
  }
  return { rings, set, ring }
}

t.test('one message at a time; of what changes the state each, of the rest the newest', async t => {
  const { sent, send, settle, under } = told()
  const { set, ring, rings } = bells()
  const notifier = new Notifier(send, silent, set)
  notifier.say({ STATUS: 'a' })
  for (const status of ['b', 'c']) notifier.say({ STATUS: status })
  notifier.ready()
  notifier.say({ WATCHDOG: '1' })
  t.same(sent, [{ STATUS: 'a' }], 'the others wait')
  await settle()
  t.same(sent.splice(0, 2).at(1), { STATUS: 'c', READY: '1', WATCHDOG: '1' })
  notifier.reloading()
  notifier.say({ STATUS: 'd' })
  notifier.ready()
  notifier.say({ STATUS: 'e' })
  notifier.reloading()
  notifier.ready()
  await settle()
  await settle()
  t.same(named(sent), [{ RELOADING: '1', MONOTONIC_USEC: true }, { READY: '1' }])
  await settle()
  t.equal(under.length, 0)

  sent.length = 0
  notifier.say({ STATUS: 'f', WATCHDOG: '1' })
  notifier.say({ STOPPING: '1' })
  await settle(new Error('systemd-notify cannot be run'))
  t.equal(sent.length, 1, 'not again at once')
  await ring(1000)
  t.same(sent.at(-1), { STATUS: 'f', STOPPING: '1' }, 'that all was well then is no longer worth a word')
  await settle(new Error('systemd-notify cannot be run'))
  t.equal(rings.filter(({ over }) => !over).at(-1)?.ms, 2000, 'less and less often')
  const closed = notifier.close()
  await settle()
  await closed
  t.same(sent.at(-1), { STATUS: 'f', STOPPING: '1' }, 'the last chance')
})

t.test('an outage is logged once, and so is the next one of the same cause', async t => {
  const { send, settle } = told()
  const { set, ring } = bells()
  const lines: string[] = []
  const notifier = new Notifier(send, pino({}, { write: line => void lines.push(line) }), set)
  const fail = () => settle(new Error('exit code 1'))
  for (const outage of [1, 2]) {
    notifier.say({ STATUS: 'a' })
    await fail()
    await ring(1000)
    await fail()
    t.equal(lines.length, outage)
    await ring(2000)
    await settle()
  }
  t.notOk(notifier.isBehind)
})

t.test('the line of a status', async t => {
  const one = (state: string, ownReason?: string) => ({ id: 'out', state, reason: ownReason && 'quoted', ownReason })
  const other = { id: 'other', state: 'ready', reason: undefined }
  const cases: [Parameters<typeof daemonState>[0], boolean, string][] = [
    [{ destinations: [one('ready'), other] }, true, 'delivers to out, other'],
    [{ destinations: [one('starting'), other] }, false, 'validates out'],
    [{ destinations: [one('starting', 'refused'), other] }, true, 'out cannot start yet: refused'],
    [{ destinations: [one('holding', '401\n no key')] }, true, 'out holds: 401 no key'],
    [
      { destinations: [one('retrying', 'busy'), { ...one('holding', 'no key'), id: 'b' }] },
      true,
      'b holds: no key; out tries again: busy',
    ],
    [{ destinations: [one('failing', 'away'), other] }, true, 'out fails: away'],
    [{ destinations: [one('refusing', '422'), other] }, true, 'out rejects most requests: 422'],
    [
      { destinations: [other], refused: 'f:1:2: no' },
      true,
      'cannot apply the new configuration, the previous one is running: f:1:2: no',
    ],
    [
      { destinations: [other], failures: [{ id: 'in', state: 'failing', ownReason: 'no port' }] },
      true,
      'in failed and is restarting: no port',
    ],
    [
      { destinations: [other], failures: [{ id: 'in', state: 'holding', ownReason: 'cannot read f' }] },
      true,
      'in holds: cannot read f',
    ],
    [{ destinations: [other], stuck: ['limit'] }, true, 'limit is stuck: systemd will restart the daemon'],
    [{ destinations: Array.from({ length: 6 }, () => other) }, true, 'delivers to 6 destinations'],
  ]
  for (const [state, ready, status] of cases) t.same(daemonState(state), { ready, status })
  t.equal(daemonState({ destinations: [one('holding', 'x'.repeat(2000))] }).status.length, 400)
})

t.test('ready, reloading, ending', async t => {
  const { sent, send, settle } = told()
  const timers = bells()
  const env: NodeJS.ProcessEnv = {
    NOTIFY_SOCKET: '/run/x',
    WATCHDOG_USEC: '8000000',
    WATCHDOG_PID: `${process.pid}`,
    LEFT: '1',
  }
  const systemd = Systemd.from(env, { log: silent, send, every: timers.set, after: timers.set })
  t.same(env, { LEFT: '1' }, 'programs that are started do not take it for theirs')
  const subject = {
    ready: false,
    status: 'validates out',
    fine: true,
    state: () => subject,
    goesOn: () => subject.fine,
  }
  systemd.follow(subject satisfies WatchedService)
  t.match(sent, [{ STATUS: 'validates out' }])
  await settle()
  t.same(sent.splice(0), [{ STATUS: 'validates out' }, { EXTEND_TIMEOUT_USEC: '30000000' }], 'more time is asked for')
  await settle()
  subject.status = 'a moment'
  await timers.ring(50)
  t.same(sent, [], 'not worth a word')
  Object.assign(subject, { ready: true, status: 'delivers' })
  await timers.ring(50)
  await settle()
  t.same(sent.splice(0), [{ STATUS: 'delivers' }, { READY: '1' }])
  await settle()
  await timers.ring(50)
  await timers.ring(1000)
  t.same(sent, [], 'nothing new')

  for (let looks = 0; looks < 2 * CHECKS; looks++) {
    await timers.ring(2000)
    await settle()
  }
  t.ok(sent.length === CHECKS && sent.every(({ WATCHDOG }) => WATCHDOG === '1'), 'fed twice in an interval')
  sent.length = 0
  await timers.ring(2000)
  await settle(new Error('systemd-notify: SIGTERM'))
  await timers.ring(1000)
  await timers.ring(2000)
  t.equal(sent.length, 2, 'what did not get there is made up for at the next look: half an interval later is too late')
  await settle()
  subject.fine = false
  sent.length = 0
  for (let looks = 0; looks < 2 * CHECKS; looks++) await timers.ring(2000)
  t.same(sent, [], 'not fed')
  subject.fine = true

  let done = () => {}
  const reloaded = systemd.reload(() => new Promise<void>(resolve => (done = resolve)))
  Object.assign(subject, { ready: false, status: 'validates next' })
  await settle()
  t.same(named(sent.splice(0)), [{ RELOADING: '1', MONOTONIC_USEC: true }])
  done()
  await reloaded
  await settle()
  t.same(named(sent.splice(0)), [], 'not before what runs now is ready')
  Object.assign(subject, { ready: true, status: 'delivers' })
  await timers.ring(50)
  await settle()
  t.same(named(sent.splice(0)), [{ READY: '1' }])
  await settle()
  systemd.ending(5000, 'ending')
  systemd.ending(0, 'ended')
  t.same(sent.splice(0), [{ STOPPING: '1', STATUS: 'ending', EXTEND_TIMEOUT_USEC: '35000000' }])
  Object.assign(subject, { status: 'other' })
  await timers.ring(1000)
  const closed = systemd.close()
  for (let i = 0; i < 3; i++) await settle()
  await closed
  t.same(sent, [], 'nothing after its end')

  const idle = bells()
  const nobody = Systemd.from(
    {},
    { log: silent, send: async () => void t.fail('nobody is told'), every: idle.set, after: idle.set },
  )
  nobody.follow(subject)
  await nobody.reload(async () => {})
  nobody.ending(0, '')
  await nobody.close()
  t.same(idle.rings, [], 'without systemd it costs nothing')
  const foreign = { NOTIFY_SOCKET: '/run/x', WATCHDOG_USEC: '8000000', WATCHDOG_PID: '1' }
  Systemd.from(foreign, { log: silent, send, every: idle.set, after: idle.set }).follow(subject)
  t.same(valuesOf(idle.rings, 'ms'), [1000], 'the watchdog of another process is none of ours')
})

t.test('who is stuck', async t => {
  let logged = ''
  const log = pino({}, { write: text => void (logged += text) })
  const stages = ['a', 'b'].map(id => {
    const stage = { id, owing: false, count: 0, owes: () => stage.owing, moved: () => stage.count }
    return stage satisfies Watched
  })
  const [a, b] = stages as [(typeof stages)[0], (typeof stages)[0]]
  const pipeline = { watched: stages as Watched[], states: () => [], failures: () => [] }
  const subject = new DaemonHealth(pipeline, log)
  const looks = (count: number) => Array.from({ length: count }, () => subject.goesOn())
  t.ok(looks(20).every(Boolean), 'idle: nothing owed')
  a.owing = true
  for (let i = 0; i < 20; i++) {
    a.count++
    t.ok(subject.goesOn(), 'it moves')
  }
  t.same(looks(CHECKS + 1), [...Array(CHECKS - 1).fill(true), false, false], 'a whole interval without a move')
  t.match(subject.state().status, /^a is stuck/)
  t.equal(logged.match(/SLUICE_STUCK/g)?.length, 1, 'told once')
  a.count++
  t.ok(subject.goesOn(), 'it moves again')
  t.notMatch(subject.state().status, 'stuck')
  looks(CHECKS - 1)
  a.owing = false
  t.ok(looks(1)[0])
  a.owing = true
  t.ok(looks(CHECKS).every(Boolean), 'what had nothing to do begins anew')
  b.owing = true
  looks(2 * CHECKS)
  t.match(subject.state().status, 'a is stuck: systemd will restart the daemon; b is stuck')
  pipeline.watched = [{ id: 'a', owes: () => true, moved: () => a.count }]
  t.ok(subject.goesOn(), 'what took its place is another one')
})
