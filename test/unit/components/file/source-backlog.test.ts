import { appendFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { CHUNK_BYTES } from '../../../../src/lib/lines/chunk-memory.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, Receiver, settled, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

t.test('after a start, the first one included, what was there is backlog, and what comes later is not', async t => {
  const dir = testFolder(t, { 'a.log': 'first\n' })
  const path = join(dir, 'a.log')
  const before = await tail({ include: [path] })
  await settled(before, 1)
  appendFileSync(path, 'live at first\n')
  await arrived(before, 2)
  t.same(before.out.backlog, ['first'])
  await before.stop()
  appendFileSync(path, 'missed 1\nmissed 2\n')
  const run = await tail({ include: [path] }, before.checkpoints)
  await arrived(run, 2)
  appendFileSync(path, 'live\n')
  await arrived(run, 3)
  t.same(run.out.texts(), ['missed 1', 'missed 2', 'live'])
  t.same(run.out.backlog, ['missed 1', 'missed 2'])
})

t.test('files that came or were rotated while the source did not run are backlog', async t => {
  const dir = testFolder(t, { 'app.log': 'first\n' })
  const path = join(dir, 'app.log')
  const before = await tail({ include: [path] })
  await settled(before, 1)
  await before.stop()
  appendFileSync(path, 'rest\n')
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, 'in between\n')
  writeFileSync(path, 'newest\n')
  writeFileSync(join(dir, 'other.log'), 'of a file that nobody knew\n')
  const run = await tail({ include: [join(dir, '*.log')] }, before.checkpoints)
  await arrived(run, 4)
  t.same([...run.out.backlog].sort(), ['in between', 'newest', 'of a file that nobody knew', 'rest'])
})

t.test('the rest of a file that was compressed while the source did not run is backlog', async t => {
  const dir = testFolder(t, { 'app.log': 'first\n' })
  const path = join(dir, 'app.log')
  const before = await tail({ include: [path] })
  await settled(before, 1)
  await before.stop()
  writeFileSync(`${path}.1.gz`, gzipSync('first\nrest\n'))
  renameSync(path, join(dir, 'gone'))
  writeFileSync(join(dir, 'gone'), '')
  const run = await tail({ include: [path] }, before.checkpoints)
  await arrived(run, 1)
  t.same(run.out.backlog, ['rest'])
})

t.test('a file that comes while the source runs is not backlog, whatever its name', async t => {
  const dir = testFolder(t, { 'app.log': 'first\n' })
  const path = join(dir, 'app.log')
  const before = await tail({ include: [path] })
  await settled(before, 1)
  await before.stop()
  const run = await tail({ include: [path] }, before.checkpoints)
  await run.scanned()
  // The times of files are up to a tick of the kernel behind the clock.
  const begun = systemClock.now()
  await until('a moment', () => systemClock.now() - begun > 20)
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'next\n')
  await arrived(run, 1)
  t.same(run.out.backlog, [])
})

t.test('a file that was written before the start is backlog when it comes later, too', async t => {
  const dir = testFolder(t, { logs: {}, 'app.log': 'old\n' })
  utimesSync(join(dir, 'app.log'), 1_000_000, 1_000_000)
  const run = await tail({ include: [join(dir, 'logs/*.log')] })
  await run.scanned()
  renameSync(join(dir, 'app.log'), join(dir, 'logs/app.log'))
  await arrived(run, 1)
  t.same(run.out.backlog, ['old'])
})

t.test('without follow, all of it is', async t => {
  const dir = testFolder(t, { 'a.log': 'first\n' })
  const path = join(dir, 'a.log')
  const before = await tail({ include: [path], follow: false })
  await before.run
  t.same(before.out.backlog, ['first'])
  await before.stop()
  appendFileSync(path, 'more\n')
  const run = await tail({ include: [path], follow: false }, before.checkpoints)
  await run.run
  t.same(run.out.texts(), ['more'])
  t.same(run.out.backlog, ['more'])
})

t.test('what piles up while there is no room for a second is backlog', async t => {
  const dir = testFolder(t, { 'a.log': 'first\n', 'b.log': '' })
  const [path, other] = [join(dir, 'a.log'), join(dir, 'b.log')]
  for (const [ms, backlog] of [
    [900, []],
    [1000, ['also there', 'piled up']],
  ] as const) {
    // The time of a busy machine does not count: the wait ends at most 900 ms after it began, or at least a second.
    const began = systemClock.now()
    let still: number | undefined = began
    const clock = { ...systemClock, now: () => still ?? systemClock.now() }
    const out = new Receiver()
    let makeRoom = () => {}
    out.room = new Promise(resolve => {
      makeRoom = resolve
    })
    writeFileSync(path, 'first\n')
    writeFileSync(other, '')
    const run = await tail({ include: [join(dir, '*.log')] }, undefined, out, clock)
    await arrived(run, 1)
    still = undefined
    appendFileSync(path, 'piled up\n')
    appendFileSync(other, 'also there\n')
    await run.scanned()
    still = ms + (ms < 1000 ? began : systemClock.now())
    out.room = Promise.resolve()
    makeRoom()
    await arrived(run, 3)
    still = undefined
    appendFileSync(path, 'live\n')
    await arrived(run, 4)
    t.same([...out.backlog].sort(), ['first', ...backlog].sort(), `${ms} ms`)
    await run.stop()
  }
})

t.test('what is read again after events were given back is backlog', async t => {
  const dir = testFolder(t, { 'a.log': '' })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path] }, undefined, out)
  await run.scanned()
  appendFileSync(path, 'given back\n')
  await arrived(run, 1)
  out.hold = false
  out.settle('errored')
  await t.rejects(run.run)
  appendFileSync(path, 'meanwhile\n')
  run.again().catch(() => {})
  await arrived(run, 3)
  t.same(out.backlog, ['given back', 'meanwhile'])
})

t.test('files that are read in turns do not each keep memory for a read', async t => {
  const FILES = 40
  const line = `${'x'.repeat(9000)}\n`
  const files = Array.from({ length: FILES }, (_, i) => [`${i}.log`, line.repeat(150)])
  const dir = testFolder(t, Object.fromEntries(files))
  const chunks = new Set<Buffer>()
  class Watching extends Receiver {
    override send(batch: EventBatch): Promise<void> {
      if (batch.chunk.length === CHUNK_BYTES) chunks.add(batch.chunk)
      return super.send(batch)
    }
  }
  const run = await tail({ include: [join(dir, '*.log')] }, undefined, new Watching())
  await arrived(run, FILES * 150)
  t.ok(chunks.size > 0 && chunks.size < 5, `${chunks.size} chunks`)
})
