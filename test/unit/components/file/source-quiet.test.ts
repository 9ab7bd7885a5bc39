import fs, { appendFileSync, linkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const FILES = 20

/** Files whose changes no watch reports if they are made under their other names, in a folder that is not watched. */
async function tailQuiet(t: Test) {
  const names = Array.from({ length: FILES }, (_, i) => `${i}.log`)
  const dir = testFolder(t, { logs: Object.fromEntries(names.map(name => [name, 'first\n'])), elsewhere: {} })
  const paths = names.map(name => join(dir, 'logs', name))
  const others = names.map(name => join(dir, 'elsewhere', name))
  for (const [i, path] of paths.entries()) linkSync(path, others[i]!)
  // Names in a folder that has just been changed are read again by each scan.
  utimesSync(join(dir, 'logs'), 1, 1)
  let skipped = 0
  const clock = { ...systemClock, now: () => systemClock.now() + skipped }
  const run = await tail({ include: [join(dir, 'logs', '*.log')] }, undefined, undefined, clock)
  await arrived(run, FILES)
  let checks = 0
  const { fstatSync } = fs
  t.teardown(() => (fs.fstatSync = fstatSync))
  fs.fstatSync = ((...args: Parameters<typeof fstatSync>) => {
    checks++
    return fstatSync(...args)
  }) as typeof fstatSync
  const scans = () => run.value('sluice_file_scans_total')!
  /** The checks of files in ten scans or more; in one of ten all names are read again, and no open file is checked. */
  const checksInScans = async () => {
    const before = scans()
    checks = 0
    await run.scanned(10)
    return { checks, tens: (scans() - before) / 10 }
  }
  return { run, path: paths[0]!, other: others[0]!, checksInScans, skip: (ms: number) => (skipped += ms) }
}

t.test('each scan checks all files, and finds what no watch reports', async t => {
  const { run, other, checksInScans } = await tailQuiet(t)
  const { checks, tens } = await checksInScans()
  t.ok(checks >= 8 * tens * FILES, `${checks} checks`)
  appendFileSync(other, 'second\n')
  await until('the append', () => run.out.lines.length === FILES + 1)
  await run.stop()
})

t.test('files without an append for a minute are checked every 8 seconds', async t => {
  const { run, path, other, checksInScans, skip } = await tailQuiet(t)
  skip(60_000)
  await run.scanned(1)
  const quiet = await checksInScans()
  t.ok(quiet.checks <= quiet.tens * FILES, `${quiet.checks} checks`)
  skip(8000)
  const { checks, tens } = await checksInScans()
  t.ok(checks >= FILES && checks <= FILES + tens * FILES, `${checks} checks`)
  appendFileSync(other, 'second\n')
  skip(8000)
  await until('the append', () => run.out.lines.length === FILES + 1)

  await t.test('and by each scan after an append', async t => {
    const { checks, tens } = await checksInScans()
    t.ok(checks >= 8 * tens && checks <= 20 * tens, `${checks} checks of one file`)
  })

  await t.test('but are read at once if a watch reports an append', async t => {
    skip(60_000)
    await run.scanned(1)
    appendFileSync(path, 'third\n')
    await until('the append', () => run.out.lines.length === FILES + 2)
    t.equal(run.out.texts().at(-1), 'third')
  })

  await t.test('and checked by the next scan if they cannot be read', async t => {
    let go = () => {}
    run.out.room = new Promise(resolve => (go = resolve))
    appendFileSync(path, 'fourth\n')
    await until('the append', () => run.out.lines.length === FILES + 3)
    skip(60_000)
    await run.scanned(1)
    const size = run.value('sluice_file_unread_bytes')
    appendFileSync(path, 'fifth\n')
    await run.scanned(3)
    t.equal(run.value('sluice_file_unread_bytes'), size! + 'fifth\n'.length)
    go()
    await until('the last append', () => run.out.lines.length === FILES + 4)
  })
  await run.stop()
})
