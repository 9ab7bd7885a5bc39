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
import { testFolder } from '../../support/folder.js'
import { laterFiles, settled, tail } from '../../support/tailing.js'
import { until } from '../../support/until.js'

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
