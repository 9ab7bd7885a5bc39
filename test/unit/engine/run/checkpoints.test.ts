import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { CheckpointStore } from '../../../../src/engine/run/state/checkpoints.js'
import { systemClock, type TimerClock } from '../../../../src/lib/time.js'
import { problemsIn } from '../../../support/facts.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { until } from '../../../support/until.js'

function open(dir: string, intervalMs = 10, clock: TimerClock = systemClock) {
  const log: { msg: string; level: number; cause?: string; meaning?: string }[] = []
  const logger = pino({}, { write: line => log.push(JSON.parse(line)) })
  const store = new CheckpointStore(dir, logger, clock, intervalMs)
  return { store, log }
}

t.test('what was saved is there after a restart, per source', async t => {
  const dir = testFolder(t)
  const { store } = open(dir)
  for (const id of ['a', 'b', 'x/../y']) {
    const checkpoints = store.forSource(id)
    t.equal(checkpoints.read(), undefined)
    t.equal(checkpoints.savedAt, 0)
    checkpoints.provide(() => ({ id, text: 'ä\n' }))
    checkpoints.changed()
  }
  t.equal(store.forSource('a'), store.forSource('a'))
  t.equal(await store.flush(), true)
  store.close()
  const next = open(dir).store
  for (const id of ['a', 'b', 'x/../y']) t.same(next.forSource(id).read(), { id, text: 'ä\n' })
  t.equal(next.forSource('c').read(), undefined)
  t.equal(readdirSync(join(dir, 'checkpoints')).filter(name => name.endsWith('.new')).length, 0)
})

t.test('changes are written soon, together, and not when nothing changed', async t => {
  const time = new ManualTime()
  const { store } = open(testFolder(t), 30, time)
  const checkpoints = store.forSource('a')
  let taken = 0
  checkpoints.provide(() => ({ taken: ++taken }))
  for (let i = 0; i < 100; i++) checkpoints.changed()
  await time.advance(30)
  await until('the first save', () => store.counts.written === 1)
  t.equal(taken, 1)
  await time.advance(1000)
  t.equal(checkpoints.savedAt, time.wall(), 'up to date while nothing changes')
  t.same([store.counts.written, time.timers], [1, 0])
  checkpoints.changed()
  await time.advance(2)
  t.ok(time.wall() - checkpoints.savedAt > 1000, 'as old as the save while something is to be saved')
  await time.advance(30)
  await until('the second save', () => store.counts.written === 2)
  await checkpoints.flush()
  t.equal(store.counts.written, 2, 'a flush writes nothing that is saved')
  checkpoints.changed()
  store.close()
  await time.advance(1000)
  t.same([store.counts.written, time.timers], [2, 0], 'nothing after the end')
})

t.test('a flush during a save also saves what changes then', async t => {
  const dir = testFolder(t)
  const { store } = open(dir)
  const checkpoints = store.forSource('a')
  let version = 1
  checkpoints.provide(() => ({ version }))
  checkpoints.changed()
  const first = store.flush()
  version = 2
  checkpoints.changed()
  await store.flush()
  t.same(open(dir).store.forSource('a').read(), { version: 2 })
  t.equal(await first, true)
  store.close()
})

t.test('a damaged file costs one save, two cost all, and neither ends anything', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'checkpoints', 'a.json')
  const { store } = open(dir)
  const checkpoints = store.forSource('a')
  let version = 0
  checkpoints.provide(() => ({ version: ++version, filler: 'x'.repeat(500) }))
  for (let i = 0; i < 3; i++) {
    checkpoints.changed()
    await store.flush()
  }
  store.close()
  const whole = readFileSync(path)
  const damages: [string, (file: string) => void][] = [
    ['torn', file => writeFileSync(file, whole.subarray(0, 200))],
    ['a flipped bit', file => writeFileSync(file, whole.toString().replace('xxx', 'xxy'))],
    ['of no version', file => writeFileSync(file, '{"sluice_checkpoint":0}\n{}\n')],
  ]
  const before = readFileSync(`${path}.1`)
  for (const [what, damage] of damages) {
    writeFileSync(path, whole)
    writeFileSync(`${path}.1`, before)
    damage(path)
    const one = open(dir)
    t.match(one.store.forSource('a').read(), { version: 2 }, what)
    t.equal(one.store.counts.corrupt, 1)
    t.match(one.log, [{ level: 50, file: path, set_aside: /a\.json\.corrupt-/, meaning: /previous save/ }])
    t.notOk(existsSync(path))
    writeFileSync(path, whole)
    damage(path)
    damage(`${path}.1`)
    const two = open(dir)
    t.equal(two.store.forSource('a').read(), null, `${what}, both: lost is not the same as never saved`)
    t.equal(two.store.counts.corrupt, 2)
    t.match(two.log, [{ level: 50, meaning: /from the beginning/ }])
    const again = two.store.forSource('a')
    again.provide(() => 'new')
    again.changed()
    t.ok(await two.store.flush())
    t.equal(open(dir).store.forSource('a').read(), 'new')
    two.store.close()
  }
  const aside = readdirSync(join(dir, 'checkpoints')).filter(name => name.includes('.corrupt-'))
  t.ok(aside.length > 0 && aside.length <= 5, `${aside.length} set aside`)
  t.test('a crash between the two renames', async t => {
    writeFileSync(`${path}.1`, whole)
    rmSync(path)
    const { store, log } = open(dir)
    t.match(store.forSource('a').read(), { version: 3 })
    t.same(log, [])
  })
})

t.test('a file that cannot be read is neither missing nor damaged', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'checkpoints', 'a.json')
  const { store } = open(dir)
  const checkpoints = store.forSource('a')
  for (const version of [1, 2]) {
    checkpoints.provide(() => ({ version }))
    checkpoints.changed()
    await store.flush()
  }
  store.close()
  for (const name of [path, `${path}.1`]) {
    renameSync(name, `${path}.kept`)
    symlinkSync(name, name)
    // What was saved before is asked for only when the newest is damaged or missing.
    if (name !== path) renameSync(path, `${path}.newest`)
    const { store, log } = open(dir)
    const checkpoints = store.forSource('a')
    const message = new RegExp(`^cannot read ${name}: .*ELOOP.*; check the disk`)
    for (let i = 0; i < 2; i++)
      t.throws(() => checkpoints.read(), { code: 'SLUICE_STATE_UNREADABLE', file: name, message })
    t.same(log, [])
    t.equal(store.counts.corrupt, 0)
    rmSync(name)
    renameSync(`${path}.kept`, name)
    if (name !== path) renameSync(`${path}.newest`, path)
    t.match(checkpoints.read(), { version: 2 }, 'read when that is possible')
  }
})

t.test('what cannot be written is told once, counted, and tried again', async t => {
  const dir = testFolder(t, { checkpoints: 'a file where the folder should be' })
  const { store, log } = open(dir)
  const checkpoints = store.forSource('a')
  checkpoints.provide(() => 'state')
  checkpoints.changed()
  await until('some attempts', () => store.counts.failed >= 3)
  t.equal(await store.flush(), false)
  await t.rejects(checkpoints.flush())
  t.equal(log.length, 1)
  t.match(log, [{ level: 50, cause: 'EEXIST' }])
  t.equal(checkpoints.savedAt, 0)
  renameSync(join(dir, 'checkpoints'), join(dir, 'away'))
  t.equal(await store.flush(), true)
  t.match(log[1], { level: 30, msg: /saved again/ })
  t.equal(open(dir).store.forSource('a').read(), 'state')
  store.close()
})

t.test('a successor takes over what could not be saved, and saves it', async t => {
  const dir = testFolder(t)
  const { store } = open(dir)
  const before = store.forSource('a')
  before.provide(() => ({ offset: 1 }))
  before.changed()
  await store.flush()
  renameSync(join(dir, 'checkpoints'), join(dir, 'away'))
  writeFileSync(join(dir, 'checkpoints'), 'a file where the folder should be')
  before.provide(() => ({ offset: 2 }))
  before.changed()
  t.equal(await store.flush(), false)
  store.release(['a'])
  const next = store.forSource('a')
  t.same(next.read(), { offset: 2 })
  rmSync(join(dir, 'checkpoints'))
  renameSync(join(dir, 'away'), join(dir, 'checkpoints'))
  t.equal(await store.flush(), true)
  store.release(['a'])
  t.same(store.forSource('a').read(), { offset: 2 }, 'from the disk')
  store.close()
})

t.test('a full disk keeps the last save', { skip: !existsSync('/dev/full') }, async t => {
  const dir = testFolder(t)
  const { store } = open(dir)
  const checkpoints = store.forSource('a')
  checkpoints.provide(() => 'first')
  checkpoints.changed()
  await store.flush()
  symlinkSync('/dev/full', join(dir, 'checkpoints', 'a.json.new'))
  checkpoints.provide(() => 'second')
  checkpoints.changed()
  t.equal(await store.flush(), false)
  store.close()
  t.equal(open(dir).store.forSource('a').read(), 'first')
  chmodSync(dir, 0o700)
})

t.test('positions that cannot be saved, or were not saved for long, are a problem', async t => {
  const time = new ManualTime()
  const show = ({ store }: ReturnType<typeof open>, isUsed = true) => {
    const checkpoints = store.forSource('app')
    const { fact } = checkpoints
    if (isUsed) checkpoints.provide(() => 1)
    if (isUsed) checkpoints.changed()
    const seen = () => problemsIn('app', metrics => metrics.fact(fact), { wall: time.wall() })
    return { checkpoints, seen }
  }
  const slow = show(open(testFolder(t), 10_000_000, time))
  const inTheWay = testFolder(t, { checkpoints: 'in the way' })
  const failing = show(open(inTheWay, 30, time))
  const unused = show(open(inTheWay, 30, time), false)
  t.same([...slow.seen(), ...failing.seen()], [])
  await time.advance(5000)
  await until('a failure', () => failing.checkpoints.unsaved !== undefined)
  const todo = /^After a restart, events sent since then would be sent again\. .*SLUICE_CHECKPOINT_NOT_SAVED/
  t.match(failing.seen(), [
    { what: 'app: its positions cannot be saved', detail: 'They have not been saved for 5 s.', todo },
  ])
  t.same(slow.seen(), [])
  await time.advance(85_000)
  t.match(slow.seen(), [{ what: 'app: its positions have not been saved for 90 s', todo }])
  t.same(unused.seen(), [])
})
