import { appendFileSync, copyFileSync, mkdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { testFolder } from '../../../support/folder.js'
import { laterFiles, MemoryCheckpoints, Receiver, settled, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `this is line ${from + i}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

/** A log of 20 lines, and the folder into which it is rotated. */
function made(t: Test) {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 20)) })
  mkdirSync(join(dir, 'old'))
  const path = join(dir, 'app.log')
  return { path, old: join(dir, 'old', 'app.log'), options: { include: [path], archive_folders: ['old'] } }
}

const WAYS: Readonly<Record<string, (path: string, old: string) => void>> = {
  renamed: (path, old) => renameSync(path, `${old}.1`),
  'renamed and compressed': (path, old) => {
    writeFileSync(`${old}.1.gz`, gzipSync(readFileSync(path)))
    renameSync(path, `${path}.gone`)
    truncateSync(`${path}.gone`)
  },
  'renamed twice': (path, old) => {
    renameSync(path, `${old}.2`)
    writeFileSync(`${old}.1`, asText(numbered(30, 40)))
  },
  'copied and truncated': (path, old) => {
    copyFileSync(path, `${old}.1`)
    truncateSync(path)
  },
}

for (const [way, rotate] of Object.entries(WAYS))
  for (const isAbsolute of [false, true])
    t.test(`${way} into ${isAbsolute ? 'an absolute' : 'a relative'} folder, while stopped`, async t => {
      const { path, old, options } = made(t)
      const archives = isAbsolute ? [join(old, '..')] : ['old']
      const first = await tail({ ...options, archive_folders: archives })
      await settled(first, 20)
      await first.stop()
      appendFileSync(path, asText(numbered(20, 30)))
      await laterFiles(old.replace('/app.log', ''))
      rotate(path, old)
      writeFileSync(path, asText(numbered(40, 50)))
      const time = new TestTime()
      const run = await tail({ ...options, archive_folders: archives }, first.checkpoints, new Receiver(), time)
      time.ms += 5000
      const between = way === 'renamed twice' ? numbered(30, 40) : []
      await settled(run, 20 + between.length)
      t.same(run.out.texts(path), [...numbered(20, 30), ...between, ...numbered(40, 50)])
      await run.stop()
    })

t.test(
  'renamed into another folder while it is read: it is read on, and its position is known at the next start',
  async t => {
    const { path, old, options } = made(t)
    const run = await tail(options, new MemoryCheckpoints())
    await settled(run, 20)
    renameSync(path, `${old}.1`)
    appendFileSync(`${old}.1`, asText(numbered(20, 25)))
    await settled(run, 25)
    await run.stop()
    t.notOk(run.log.some(({ code }) => code === 'SLUICE_FILE_DELETED'))
    appendFileSync(`${old}.1`, asText(numbered(25, 30)))
    const next = await tail(options, run.checkpoints)
    await settled(next, 5)
    t.same(next.out.texts(path), numbered(25, 30))
    await next.stop()
  },
)

t.test('an archive is missing, and another has nothing of the file: the loss is counted', async t => {
  const { path, options } = made(t)
  const run = await tail({ ...options, archive_folders: ['old', 'missing'] })
  run.out.hold = true
  await settled(run, 20)
  await run.stop()
  writeFileSync(`${path}.new`, 'other\n')
  renameSync(`${path}.new`, path)
  const next = await tail(options, run.checkpoints)
  await settled(next, 1)
  await until('the loss', () => next.value('sluice_file_lost_bytes_total') === asText(numbered(0, 20)).length)
  await next.stop()
})
