import {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, laterFiles, MemoryCheckpoints, Receiver, settled, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

/** Longer than what is compared of the beginning of a file. */
const BANNER = `# ${'the header of every file '.repeat(50)}\n`
const numbered = (from: number, to: number, word = 'line') =>
  Array.from({ length: to - from }, (_, i) => `${word} ${from + i}, of some length\n`).join('')

function compress(path: string): void {
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)))
  unlinkSync(path)
}

for (const isCompressed of [false, true])
  t.test(
    `lines are read after a ${isCompressed ? 'compressed' : 'plain'} copy was made, and before the truncation`,
    async t => {
      const dir = testFolder(t, { 'app.log': BANNER + numbered(0, 100) })
      const path = join(dir, 'app.log')
      const options = { include: [path], scan_interval: '20ms' }
      const run = await tail(options)
      await settled(run, 101)
      // A copy is recognized by what was read up to its second half, here by the second read.
      appendFileSync(path, numbered(100, 300))
      await settled(run, 301)
      await laterFiles(dir)
      copyFileSync(path, `${path}.1`)
      appendFileSync(path, numbered(300, 400))
      await settled(run, 401)
      truncateSync(path)
      if (isCompressed) compress(`${path}.1`)
      // It begins alike, and was read by nobody.
      writeFileSync(`${path}.2`, BANNER + numbered(0, 250, 'LINE'))
      await run.scanned(3)
      appendFileSync(path, 'after\n')
      await settled(run, 401 + 251 + 1)
      const once = (text: string) => run.out.texts().filter(one => one.startsWith(text)).length
      t.equal(once('line'), 400, 'each line once')
      t.equal(once('LINE'), 250)
      t.equal(once('after'), 1)
      await run.stop()

      const next = await tail(options, run.checkpoints)
      await next.scanned(3)
      if (!isCompressed) {
        renameSync(`${path}.1`, `${path}.3`)
        await next.scanned(3)
        compress(`${path}.3`)
      }
      appendFileSync(path, 'more\n')
      await settled(next, 1)
      await next.scanned(3)
      t.same(next.out.texts(), ['more'], 'nor by the next run')
      await next.stop()
    },
  )

for (const isCompressed of [false, true])
  t.test(
    `a file that was read at once has a ${isCompressed ? 'compressed' : 'plain'} copy that is shorter than it`,
    async t => {
      const dir = testFolder(t, { 'app.log': numbered(0, 1) })
      const path = join(dir, 'app.log')
      const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '20ms' })
      await settled(run, 1)
      await laterFiles(dir)
      appendFileSync(path, numbered(1, 4000))
      copyFileSync(path, `${path}.1`)
      appendFileSync(path, numbered(4000, 4003))
      await settled(run, 4003)
      if (isCompressed) compress(`${path}.1`)
      truncateSync(path)
      await run.scanned(3)
      appendFileSync(path, 'after\n')
      await settled(run, 4004)
      // A compressed file that just changed is read when it is at rest.
      if (isCompressed)
        await until('the copy to be at rest', () => Date.now() - statSync(`${path}.1.gz`).ctimeMs > 2500)
      await run.scanned(3)
      t.equal(run.out.texts().length, 4004)
      await run.stop()
    },
  )

for (const isCompressed of [false, true])
  for (const lines of [5, 60])
    t.test(
      `a small file has a ${isCompressed ? 'compressed' : 'plain'} copy of ${lines} lines that is shorter`,
      async t => {
        const dir = testFolder(t, { 'app.log': numbered(0, 3) })
        const path = join(dir, 'app.log')
        const options = { include: [path], scan_interval: '20ms', rotate_wait: '20ms' }
        const first = await tail(options)
        await settled(first, 3)
        await first.stop()
        await laterFiles(dir)
        const run = await tail(options, first.checkpoints)
        appendFileSync(path, numbered(3, lines))
        copyFileSync(path, `${path}.1`)
        appendFileSync(path, numbered(lines, lines + 3))
        await settled(run, lines)
        if (isCompressed) compress(`${path}.1`)
        truncateSync(path)
        // It has as many bytes as the copy, and was read by nobody.
        writeFileSync(`${path}.2`, numbered(0, lines, 'LINE'))
        await run.scanned(3)
        appendFileSync(path, 'after\n')
        await settled(run, 2 * lines + 1)
        if (isCompressed)
          await until('the copy to be at rest', () => Date.now() - statSync(`${path}.1.gz`).ctimeMs > 2500)
        await run.scanned(3)
        t.same(
          [...run.out.texts()].sort(),
          [
            ...numbered(3, lines + 3)
              .trim()
              .split('\n'),
            ...numbered(0, lines, 'LINE').trim().split('\n'),
            'after',
          ].sort(),
        )
        await run.stop()
      },
    )

t.test('a copy that has more than its beginning in common with what was read is read', async t => {
  const dir = testFolder(t, { 'app.log': BANNER + numbered(0, 100) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '20ms' })
  await settled(run, 101)
  appendFileSync(path, numbered(100, 400))
  await settled(run, 401)
  await laterFiles(dir)
  writeFileSync(`${path}.1`, BANNER + numbered(0, 300, 'LINE'))
  truncateSync(path)
  await settled(run, 401 + 301)
  t.equal(run.out.texts().filter(text => text.startsWith('LINE')).length, 300)
  await run.stop()
})

for (const gap of [0, 50])
  t.test(`a file like the copy of another one, but shorter, is read: that copy lacks ${gap} lines`, async t => {
    const same = (count: number) => 'the same line\n'.repeat(count)
    const dir = testFolder(t, { 'app.log': BANNER + same(100) })
    const path = join(dir, 'app.log')
    const run = await tail({ include: [path], scan_interval: '20ms' })
    await settled(run, 101)
    appendFileSync(path, same(400))
    await settled(run, 501)
    await laterFiles(dir)
    copyFileSync(path, `${path}.1`)
    if (gap > 0) appendFileSync(path, same(gap))
    await settled(run, 501 + gap)
    truncateSync(path)
    await run.scanned(3)
    await laterFiles(dir)
    writeFileSync(`${path}.2`, BANNER + same(450))
    appendFileSync(path, 'after\n')
    await settled(run, 501 + gap + 451 + 1)
    t.equal(run.out.texts().length, 501 + gap + 451 + 1)
    await run.stop()
  })

/** Copies of app.log that a pattern for app.log matches, too. */
const NAMES = ['app.1.log', 'app.rot0.log', 'app_old.log', 'app-20260101.log', 'old-app.log']

for (const name of NAMES)
  t.test(`a small copy in the pattern is read once, whatever its name is: ${name}`, async t => {
    const dir = testFolder(t, { 'app.log': numbered(0, 10) })
    const path = join(dir, 'app.log')
    const run = await tail({ include: [join(dir, '*.log')], scan_interval: '20ms' })
    await settled(run, 10)
    await laterFiles(dir)
    copyFileSync(path, join(dir, name))
    appendFileSync(path, numbered(10, 13))
    await settled(run, 13)
    truncateSync(path)
    await run.scanned(3)
    appendFileSync(path, numbered(13, 15))
    await settled(run, 15)
    await run.scanned(3)
    t.same(run.out.texts(), numbered(0, 15).trim().split('\n'))
    await run.stop()
  })

for (const name of NAMES)
  t.test(`a copy in the pattern is read once, whatever its name is: ${name}`, async t => {
    const dir = testFolder(t, { 'app.log': numbered(0, 100), 'other.log': numbered(0, 50, 'other') })
    const path = join(dir, 'app.log')
    const copy = join(dir, name)
    const options = { include: [join(dir, '*.log')], scan_interval: '20ms' }
    const run = await tail(options)
    await settled(run, 150)
    // Nothing but what was read, and the sweep sees the copy before the truncation.
    copyFileSync(path, copy)
    await run.scanned(3)
    truncateSync(path)
    await run.scanned(3)
    appendFileSync(path, numbered(100, 200))
    await settled(run, 250)
    await laterFiles(dir)
    // As programs do that keep one copy; lines are written, and read, before the truncation.
    copyFileSync(path, copy)
    appendFileSync(path, numbered(200, 210))
    await settled(run, 260)
    truncateSync(path)
    appendFileSync(path, numbered(210, 350))
    await settled(run, 400)
    await run.stop()

    // More than was read, while nothing runs.
    appendFileSync(path, numbered(350, 360))
    unlinkSync(copy)
    copyFileSync(path, copy)
    truncateSync(path)
    appendFileSync(path, numbered(360, 400))
    const next = await tail(options, run.checkpoints)
    await settled(next, 50)
    await next.scanned(3)
    const texts = [...run.out.texts(), ...next.out.texts()].filter(text => text.startsWith('line'))
    t.same(texts, numbered(0, 400).split('\n').slice(0, -1))
    await next.stop()
  })

t.test('a copy that is found before anything is in it', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 100) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [join(dir, '*.log')], scan_interval: '20ms' })
  await settled(run, 100)
  writeFileSync(join(dir, 'app_old.log'), '')
  await run.scanned(3)
  copyFileSync(path, join(dir, 'app_old.log'))
  await run.scanned(3)
  truncateSync(path)
  appendFileSync(path, 'after\n')
  await settled(run, 101)
  t.equal(run.out.texts().length, 101)
  await run.stop()
})

t.test('a file that another one begins with is read when it differs, or when that is not truncated', async t => {
  const dir = testFolder(t, { 'one.log': numbered(0, 100) })
  const clock = new TestTime()
  const options = { include: [join(dir, '*.log')], scan_interval: '20ms' }
  const run = await tail(options, new MemoryCheckpoints(), new Receiver(), clock)
  await settled(run, 100)
  writeFileSync(join(dir, 'two.log'), numbered(0, 50))
  writeFileSync(join(dir, 'three.log'), numbered(0, 60))
  await run.scanned(3)
  t.equal(run.out.texts().length, 100)
  appendFileSync(join(dir, 'two.log'), 'another\n')
  await settled(run, 151)
  t.equal(run.out.texts(join(dir, 'two.log')).length, 51)
  clock.ms += 10_000
  await settled(run, 211)
  t.equal(run.out.texts(join(dir, 'three.log')).length, 60)
  appendFileSync(join(dir, 'three.log'), 'more\n')
  await settled(run, 212)
  await run.stop()
})

for (const name of ['app.log.1', 'app-20260101.log'])
  t.test(`a few bytes of a copy in progress are not read: ${name}`, async t => {
    const dir = testFolder(t, { 'app.log': numbered(0, 10) })
    const path = join(dir, 'app.log')
    const copy = join(dir, name)
    const run = await tail({ include: [join(dir, '*')], scan_interval: '20ms', rotate_wait: '20ms' })
    await settled(run, 10)
    await laterFiles(dir)
    for (const bytes of [0, 10, 20, 30]) {
      writeFileSync(copy, numbered(0, 10).slice(0, bytes))
      await run.scanned()
    }
    appendFileSync(copy, numbered(0, 10).slice(30))
    truncateSync(path)
    await run.scanned(3)
    appendFileSync(path, 'after\nmore\n')
    await settled(run, 12)
    t.same(run.out.texts(), [...numbered(0, 10).trim().split('\n'), 'after', 'more'])
    await run.stop()
  })

t.test('a file that begins like another one, and stays very short, is read', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 10) })
  const clock = new TestTime()
  const run = await tail(
    { include: [join(dir, '*')], scan_interval: '20ms' },
    new MemoryCheckpoints(),
    new Receiver(),
    clock,
  )
  await settled(run, 10)
  writeFileSync(join(dir, 'app-20260101.log'), numbered(0, 1))
  await run.scanned(2)
  t.equal(run.out.texts().length, 10, 'it may still grow')
  clock.ms += 2000
  await settled(run, 11)
  await run.stop()
})

t.test('a file has a short copy, then grows long, and is truncated after a kill', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 10) })
  const path = join(dir, 'app.log')
  const killed = await tail({ include: [path], scan_interval: '300ms' })
  await settled(killed, 10)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, numbered(10, 500))
  await arrived(killed, 500)
  await killed.checkpoints.flush()
  await killed.kill()
  truncateSync(path)
  appendFileSync(path, 'after\n')
  const next = await tail({ include: [path] }, killed.checkpoints)
  await settled(next, 1)
  await next.scanned(3)
  t.same(next.out.texts(), ['after'])
  await next.stop()
})

t.test('a tiny file has a copy that is shorter than it', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 1) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '20ms' })
  await settled(run, 1)
  await laterFiles(dir)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, numbered(1, 3))
  await settled(run, 3)
  truncateSync(path)
  await run.scanned(3)
  appendFileSync(path, 'after\n')
  await settled(run, 4)
  await run.scanned(3)
  t.same(run.out.texts(), [...numbered(0, 3).trim().split('\n'), 'after'])
  await run.stop()
})

t.test('a copy ends within a line that is read after the copy was found', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 3) })
  const path = join(dir, 'app.log')
  // The file is truncated as soon as all of it was read.
  const out = new (class extends Receiver {
    override send(batch: EventBatch): Promise<void> {
      const sent = super.send(batch)
      if (this.lines.length === 10) truncateSync(path)
      return sent
    }
  })()
  let makeRoom = () => {}
  out.room = new Promise(resolve => (makeRoom = resolve))
  const run = await tail({ include: [`${path}*`] }, undefined, out)
  await arrived(run, 3)
  appendFileSync(path, numbered(3, 10).slice(0, -5))
  copyFileSync(path, `${path}.1`)
  await run.scanned(3)
  appendFileSync(path, numbered(3, 10).slice(-5))
  makeRoom()
  await until('the truncation', () => run.value('sluice_file_truncations_total') === 1)
  await run.scanned(3)
  appendFileSync(path, 'after\n')
  await settled(run, 11)
  t.same(out.texts(), [...numbered(0, 10).trim().split('\n'), 'after'])
  await run.stop()
})

t.test('a batch comes back from a truncated file whose copy is a file of its own by then', async t => {
  const dir = testFolder(t, { 'app.log': numbered(0, 8) })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [`${path}*`] }, undefined, out)
  await arrived(run, 8)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, numbered(8, 10))
  await arrived(run, 10)
  truncateSync(path)
  await until('the copy to be opened', () => run.value('sluice_files_watched') === 3)
  out.hold = false
  out.held.pop()!.ack.settle('delivered')
  out.settle('errored')
  await t.rejects(run.run)
  void run.again()
  await settled(run, 18)
  t.same(out.texts().slice(10), numbered(0, 8).trim().split('\n'))
  await run.stop()
})
