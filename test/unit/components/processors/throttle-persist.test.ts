import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { limitsOf } from '../../../../src/components/processors/throttle/options.js'
import { restoreBuckets } from '../../../../src/components/processors/throttle/persist/restore.js'
import { blocksOf, surveySegment } from '../../../../src/components/processors/throttle/persist/segments.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { PASS } from '../../../../src/components/throttle/decisions.js'
import { ClockTiming, Limiter } from '../../../../src/components/throttle/limiter.js'
import { HEAD_BYTES, sealBlock } from '../../../../src/components/throttle/persist/blocks.js'
import { BucketsReader } from '../../../../src/components/throttle/persist/saved-buckets.js'
import { folderOnDisk } from '../../../../src/engine/flow/disk-buffer/files.js'
import { problemsFrom } from '../../../support/facts.js'
import { testFolder } from '../../../support/folder.js'
import { rounds } from '../../../support/long-test.js'
import { advanceUntil, type ManualTime } from '../../../support/manual-time.js'
import { throttleStage } from '../../../support/throttle-stage.js'
import { until } from '../../../support/until.js'

const OPTIONS = { limit: 3, window: '1 Hours', key_field: '.k', persist: true }

interface Logged {
  readonly level: number
  readonly msg: string
  readonly code?: string
  readonly options?: string[]
}

/** A throttle that saves its buckets in `dir`. */
async function started(
  t: Test,
  dir: string,
  options: object = {},
  more: { time?: ManualTime; room?: () => boolean } = {},
) {
  const logged: Logged[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(JSON.parse(line)) })
  let bytes = () => 0
  const state = {
    path: dir,
    hasRoom: more.room ?? (() => true),
    count: (read: () => number) => {
      bytes = read
    },
  }
  const stage = await throttleStage({ ...OPTIONS, ...options }, { ...more, log, state })
  const stop = () => stage.processor.stop!(AbortSignal.abort())
  t.teardown(stop)
  return {
    ...stage,
    stop,
    logged,
    bytes: () => bytes(),
    /** How many of so many events of a key pass. */
    passed: async (k: string, events: number) =>
      (await stage.through(Array.from({ length: events }, () => ({ k })))).passed.length,
    /** Waits until what has happened is saved. */
    saved: async () => {
      await stage.time.advance(5000)
      await until('the save', () => stage.series('sluice_throttle_state_age_seconds')[''] === 0)
    },
  }
}

/** An empty folder, in the place of the one that the test had before. */
const folderOf = (t: Test) => join(testFolder(t), 'throttle', 'p')
const segments = (dir: string) => readdirSync(dir).sort()

t.test('after a stop every bucket is what it was, and only its user can read the file', async t => {
  const dir = folderOf(t)
  const first = await started(t, dir)
  t.equal(await first.passed('a', 2), 2)
  t.equal(await first.passed('b', 5), 3)
  await first.stop()
  t.same(segments(dir), ['1.buckets'])
  t.equal(statSync(join(dir, '1.buckets')).mode & 0o777, 0o600)
  t.equal(statSync(dir).mode & 0o777, 0o700)
  const second = await started(t, dir)
  t.match(second.logged, [{ level: 30, msg: 'continuing with the saved buckets' }])
  t.equal(await second.passed('a', 5), 1)
  t.equal(await second.passed('b', 5), 0)
  await second.stop()
  t.same(segments(dir), ['2.buckets'], 'one file with all buckets has taken the place of the other')
  t.equal(statSync(join(dir, '2.buckets')).size, second.bytes())
})

t.test('saved buckets for which max_keys leaves no room are named', async t => {
  const dir = folderOf(t)
  const first = await started(t, dir)
  for (const key of ['a', 'b', 'c']) await first.passed(key, 3)
  await first.stop()
  const second = await started(t, dir, { max_keys: 1 })
  t.match(second.logged, [
    { level: 40, buckets: 2, msg: /max_keys is lower/ },
    { level: 30, msg: 'continuing with the saved buckets' },
  ])
})

t.test('what changed is saved within a second, and nothing while nothing changes', async t => {
  const dir = folderOf(t)
  const { passed, saved, time, series, stop } = await started(t, dir)
  t.equal(time.timers, 0)
  await passed('a', 1)
  t.notSame(series('sluice_throttle_state_age_seconds'), { '': 1 })
  await saved()
  const size = statSync(join(dir, '1.buckets')).size
  t.same(series('sluice_throttle_state_bytes'), { '': size })
  t.equal(time.timers, 0)
  await passed('a', 1)
  t.ok(time.timers > 0)
  await saved()
  t.equal(statSync(join(dir, '1.buckets')).size, size + 24 + 8 + 4 + 1 + 16 + 4, 'the one bucket is appended')
  // As after a kill.
  const second = await started(t, dir)
  t.equal(await second.passed('a', 5), 1)
  await stop()
})

t.test('a file that is cut or damaged anywhere counts up to there, and the one before it stays in use', async t => {
  const dir = folderOf(t)
  const unkeyed = { key_field: undefined }
  const first = await started(t, dir, unkeyed)
  for (const events of [1, 1]) {
    await first.passed('a', events)
    await first.saved()
  }
  await first.stop()
  const before = readFileSync(join(dir, '1.buckets'))
  const second = await started(t, dir, unkeyed)
  await second.passed('a', 1)
  await second.stop()
  const after = readFileSync(join(dir, '2.buckets'))
  writeFileSync(join(dir, '1.buckets'), before)
  const { means } = (await surveySegment(folderOnDisk(dir), '2.buckets'))!
  const file = await folderOnDisk(dir).open('1.buckets')
  const ends: number[] = []
  for await (const { end } of blocksOf(file)) ends.push(end)
  await file.close()
  t.equal(ends.at(-1), before.length)
  const left = async (older: Buffer | undefined, newer: Buffer | undefined, laterMs = 0) => {
    const dir = folderOf(t)
    mkdirSync(dir, { recursive: true })
    if (older) writeFileSync(join(dir, '1.buckets'), older)
    if (newer) writeFileSync(join(dir, '2.buckets'), newer)
    const limits = limitsOf(throttle.options.parse({ ...OPTIONS, ...unkeyed }))
    const limiter = new Limiter({ limits, maxKeys: 1, seed: 0, persists: true }, new ClockTiming(0))
    await restoreBuckets(new BucketsReader(limiter, []), {
      folder: folderOnDisk(dir),
      means,
      clock: first.time,
      wall: first.time.wall() + laterMs,
      log: pino({ level: 'silent' }),
    })
    const now = first.time.now()
    return Array.from({ length: 9 }, () => limiter.take(undefined, now, 1, 0)).filter(taken => taken === PASS).length
  }
  t.equal(await left(before, after), 0)
  t.equal(await left(before, after, 3_500_000), 0)
  t.equal(await left(before, after, 3_600_000), 3, 'the time in which nothing ran is over as well')
  const damaged = (bytes: Buffer, at: number) => {
    const copy = Buffer.from(bytes)
    copy[at]! ^= 1 << (at % 8)
    return copy
  }
  const step = rounds(1, 5)
  for (let at = 0; at < after.length; at += step) {
    // Its last block has all buckets.
    t.equal(await left(before, after.subarray(0, at)), 1, `cut at ${at}`)
    t.equal(await left(before, damaged(after, at)), 1, `damaged at ${at}`)
  }
  for (let at = 0; at < before.length; at += step) {
    // Nothing is left of the file, then what was saved first.
    const expected = at < ends.at(-2)! ? 3 : 2
    t.equal(await left(before.subarray(0, at), undefined), expected, `cut at ${at}`)
    t.equal(await left(damaged(before, at), undefined), expected, `damaged at ${at}`)
  }
})

t.test('options without which the buckets mean nothing are named, and windows start empty', async t => {
  const dir = folderOf(t)
  const first = await started(t, dir)
  await first.passed('a', 3)
  await first.stop()
  const bytes = readFileSync(join(dir, '1.buckets'))
  const changes: [object, string[]][] = [
    [{ key_field: '.l' }, ['key_field']],
    [{ window: '2 Hours' }, ['windows']],
    [{ window_mode: 'sliding' }, ['windows']],
    [{ also: [{ limit: 9, window: '1 Days' }] }, ['windows']],
    [{ time_field: '.t' }, ['time_field']],
    [{ cost: '.c', window_mode: 'gcra' }, ['windows', 'cost']],
  ]
  for (const [change, options] of changes) {
    const dir = folderOf(t)
    mkdirSync(dir, { recursive: true })
    writeFileSync(join(dir, '1.buckets'), bytes)
    const stage = await started(t, dir, change)
    t.match(stage.logged, [{ level: 40, options, msg: /cannot be used; all windows start empty/ }])
    t.equal(await stage.passed('a', 9), 3, JSON.stringify(change))
    await stage.stop()
    t.equal(await (await started(t, dir, change)).passed('a', 9), 0, 'its own are kept')
  }
  const other = folderOf(t)
  mkdirSync(other, { recursive: true })
  writeFileSync(join(other, '1.buckets'), bytes)
  const higher = await started(t, other, { limit: 5, max_keys: 7 })
  t.equal(await higher.passed('a', 9), 2, 'a limit of another size goes on')
})

t.test('nothing passes while more is used than a limit that was lowered', async t => {
  for (const key_field of ['.k', undefined]) {
    for (const window_mode of ['fixed', 'sliding', 'aligned']) {
      const dir = folderOf(t)
      const first = await started(t, dir, { key_field, window_mode })
      t.equal(await first.passed('a', 9), 3)
      await first.stop()
      const second = await started(t, dir, { key_field, window_mode, limit: 1 })
      t.equal(await second.passed('a', 9), 0, `${key_field}, ${window_mode}`)
      t.equal(await second.passed('a', 9), 0, `${key_field}, ${window_mode}, again`)
      t.same(second.series('sluice_throttle_events_total')['decision=discarded'], 18)
      await second.stop()
    }
  }
})

t.test('a file of a later version is left out, and said to be so', async t => {
  const dir = folderOf(t)
  const first = await started(t, dir)
  await first.passed('a', 3)
  await first.stop()
  const path = join(dir, '1.buckets')
  const bytes = readFileSync(path)
  const length = bytes.readUInt32LE(0)
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES + length))
  head.write('"sluice_buckets":9', head.indexOf('"sluice_buckets"'))
  sealBlock(head, { now: 0, wall: 0 })
  writeFileSync(path, Buffer.concat([head, bytes.subarray(head.length)]))
  const second = await started(t, dir)
  t.match(second.logged, [{ level: 50, code: 'SLUICE_BUCKETS_UNREADABLE', error: /format 9/ }])
  t.equal(await second.passed('a', 9), 3)
})

t.test('while nothing can be written, events are decided on; then all is saved', async t => {
  const dir = folderOf(t)
  let hasRoom = true
  const { passed, time, logged, series, saved, counters } = await started(t, dir, {}, { room: () => hasRoom })
  await passed('a', 1)
  await saved()
  hasRoom = false
  t.equal(await passed('a', 1), 1)
  const unsaved = (count: number) =>
    advanceUntil(time, `${count} unsaved`, () => series('sluice_throttle_state_unsaved')[''] === count)
  await unsaved(1)
  t.equal(await passed('b', 2), 2)
  await time.advance(100_000)
  t.match(logged, [{ level: 50, code: 'SLUICE_BUCKETS_NOT_SAVED', folder: dir, error: /no disk space/ }])
  t.match(problemsFrom(counters), [{ what: /: its buckets cannot be saved$/, todo: /data_dir full/ }])
  t.equal(logged.length, 1, 'once, however often it is tried')
  t.ok(counters.failures.get('state_not_saved')! > 0)
  hasRoom = true
  await unsaved(0)
  t.match(logged.at(-1), { level: 30, msg: 'buckets can be saved again' })
  const second = await started(t, dir)
  t.same([await second.passed('a', 9), await second.passed('b', 9)], [1, 1])
})

t.test('a file that cannot be removed leaves what was saved in use, and is said to be in the way', async t => {
  const dir = folderOf(t)
  mkdirSync(join(dir, '7.buckets'), { recursive: true })
  for (const passes of [3, 0]) {
    const { passed, saved, stop, logged, series } = await started(t, dir)
    t.equal(await passed('a', 9), passes)
    await saved()
    t.equal(series('sluice_throttle_state_unsaved')[''], 0)
    await stop()
    t.match(logged.at(-1), { level: 40, file: join(dir, '7.buckets'), msg: /remove the file yourself$/ })
  }
  t.same(segments(dir), ['7.buckets', '9.buckets'], 'of two runs, the files of the second are left')
})

t.test('a folder that is removed is made again', async t => {
  const dir = folderOf(t)
  const { passed, saved } = await started(t, dir)
  await passed('a', 1)
  await saved()
  rmSync(join(dir, '..'), { recursive: true })
  await passed('b', 1)
  await saved()
  t.ok(existsSync(dir))
  const second = await started(t, dir)
  t.same([await second.passed('a', 9), await second.passed('b', 9)], [2, 2])
})

t.test('a file that cannot be read is said to be so', async t => {
  const dir = folderOf(t)
  mkdirSync(join(dir, '1.buckets'), { recursive: true })
  const { logged, passed } = await started(t, dir)
  t.match(logged, [{ code: 'SLUICE_BUCKETS_UNREADABLE' }])
  t.equal(await passed('a', 9), 3)
})

t.test('a file that grows is replaced by one with all buckets', async t => {
  const dir = folderOf(t)
  const { through, saved, bytes, stop } = await started(t, dir, { max_keys: 50_000 })
  const events = Array.from({ length: 10_000 }, (_, n) => ({ k: `a key with some letters ${n}` }))
  let most = 0
  for (let n = 0; n < 12; n++) {
    await through(events)
    await saved()
    most = Math.max(most, bytes())
  }
  t.ok(most < 4 * 1024 * 1024, String(most))
  t.equal(segments(dir).length, 1)
  t.not(segments(dir)[0], '1.buckets')
  await stop()
  const second = await started(t, dir)
  t.equal((await second.through(events)).passed.length, 0)
})

t.test('a rule that was removed and comes back starts empty, also after a restart', async t => {
  const dir = folderOf(t)
  const limits_file = join(testFolder(t), 'limits.yaml')
  const write = (limit: number) => writeFileSync(limits_file, `- { key: "*", limit: ${limit} }\n`)
  write(5)
  const { passed, saved, stop, logged, time } = await started(t, dir, { limits_file })
  const apply = async (limit: number) => {
    const before = logged.length
    write(limit)
    await advanceUntil(time, 'the rules', () => logged.length > before)
    t.match(logged.at(-1), { msg: 'limits file read again' })
  }
  t.same([await passed('a', 9), await passed('b', 9)], [5, 5])
  await saved()
  await apply(6)
  await apply(5)
  t.equal(await passed('a', 2), 2)
  await stop()
  const second = await started(t, dir, { limits_file })
  t.same([await second.passed('a', 9), await second.passed('b', 9)], [3, 5])
})
