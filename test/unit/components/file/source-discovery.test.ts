import fs, { appendFileSync, linkSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Discovery, type FoundFile } from '../../../../src/components/file/discovery/discovery.js'
import type { Remote } from '../../../../src/components/file/discovery/remote.js'
import type { PathProblems } from '../../../../src/components/file/path-problems.js'
import { systemClock } from '../../../../src/lib/time.js'
import { TimeSlices } from '../../../../src/lib/time-slices.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { arrived, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

/** Walks over folders whose names were made so long ago that they are trusted. */
function walksOf(t: Test, include: readonly string[], isFar = (_: string) => false) {
  const dir = testFolder(t, { a: { 'one.log': '', deep: { 'two.log': '' } }, b: { 'three.log': '' } })
  const age = (...folders: string[]) => {
    for (const folder of folders) utimesSync(join(dir, folder), 1, 1)
  }
  symlinkSync('a', join(dir, 'current'))
  age('.', 'a', 'a/deep', 'b')
  const time = new ManualTime()
  const failed: string[] = []
  const discovery = new Discovery(
    include.map(pattern => join(dir, pattern)),
    [],
    {
      clock: { now: () => time.now(), wall: () => Date.now() },
      problems: { failed: (path: string) => failed.push(path) } as unknown as PathProblems,
      remote: { has: isFar, answers: async () => true } as unknown as Remote,
    },
  )
  const walk = (areWatched = false) => discovery.walk(new TimeSlices(time), areWatched)
  const names = ({ files }: FoundFile) => [...files.keys()].map(path => path.slice(dir.length + 1)).sort()
  return { dir, age, walk, names, time, discovery, failed }
}

t.test('while no folder changes, a walk finds what the one before found', async t => {
  const { walk, names } = walksOf(t, ['**/*.log'])
  await walk()
  const second = await walk()
  t.same([...second.files.values()], ['same', 'same', 'same'])
  const third = await walk()
  t.equal(third.files, second.files)
  t.same(names(third), ['a/deep/two.log', 'a/one.log', 'b/three.log'])
  third.folders.add('of the caller')
  t.notOk((await walk()).folders.has('of the caller'))
  // Now and then all names are read again.
  const later: FoundFile[] = []
  for (let i = 0; i < 10; i++) later.push(await walk())
  t.equal(later.filter(({ files }) => [...files.values()].includes('plain')).length, 1)
})

t.test('a new file, a removed one and a removed folder are noticed', async t => {
  const { dir, age, walk, names } = walksOf(t, ['a/*.log', 'a/*/*.log', 'b/*.log'])
  for (let i = 0; i < 3; i++) await walk()
  writeFileSync(join(dir, 'a/deep/new.log'), '')
  t.same(names(await walk()), ['a/deep/new.log', 'a/deep/two.log', 'a/one.log', 'b/three.log'])
  age('a/deep')
  for (let i = 0; i < 3; i++) await walk()
  rmSync(join(dir, 'a/deep/new.log'))
  t.same(names(await walk()), ['a/deep/two.log', 'a/one.log', 'b/three.log'])
  rmSync(join(dir, 'b'), { recursive: true })
  t.same(names(await walk()), ['a/deep/two.log', 'a/one.log'])
})

t.test('a link that leads to another folder now is noticed', async t => {
  const { dir, walk, names } = walksOf(t, ['current/*.log'])
  for (let i = 0; i < 3; i++) t.same(names(await walk()), ['current/one.log'])
  symlinkSync('b', join(dir, 'next'))
  renameSync(join(dir, 'next'), join(dir, 'current'))
  t.same(names(await walk()), ['current/three.log'])
})

t.test('names of remote folders are read by each walk, as far as their folders changed', async t => {
  let isFar = false
  const { walk } = walksOf(t, ['b/*.log'], () => isFar)
  await walk()
  const second = await walk()
  t.equal((await walk()).files, second.files)
  isFar = true
  t.not((await walk()).files, second.files)
})

t.test('watched folders that were quiet for a minute are checked every 8 seconds, and after a report', async t => {
  const { dir, age, walk, names, time, discovery } = walksOf(t, ['b/*.log'])
  for (let i = 0; i < 2; i++) await walk(true)
  await time.advance(60_000)
  await walk(true)
  writeFileSync(join(dir, 'b/new.log'), '')
  age('b')
  utimesSync(join(dir, 'b'), 2, 2)
  t.same(names(await walk(true)), ['b/three.log'])
  await time.advance(8000)
  t.same(names(await walk(true)), ['b/new.log', 'b/three.log'])
  rmSync(join(dir, 'b/new.log'))
  utimesSync(join(dir, 'b'), 3, 3)
  t.same(names(await walk(true)), ['b/three.log'], 'it is not quiet any more')
  await walk(true)
  await time.advance(60_000)
  await walk(true)
  writeFileSync(join(dir, 'b/late.log'), '')
  t.same(names(await walk(true)), ['b/three.log'])
  discovery.checks.report()
  t.same(names(await walk(true)), ['b/late.log', 'b/three.log'])
})

t.test('a walk visits each folder once for each part of a pattern', async t => {
  let visits = 0
  const { walk, names } = walksOf(t, [`${'**/'.repeat(9)}*.log`], () => {
    visits++
    return false
  })
  t.same(names(await walk()), ['a/deep/two.log', 'a/one.log', 'b/three.log'])
  t.ok(visits <= 4 * 10, `${visits} visits of 4 folders`)
})

t.test('a walk that finds too much is reported for the same folder, wherever it ends', async t => {
  const { dir, walk, failed } = walksOf(t, ['**/*.log'])
  const entry = (name: string, isFolder: boolean) => ({
    name,
    isDirectory: () => isFolder,
    isSymbolicLink: () => false,
  })
  const files = Array.from({ length: 200_000 }, (_, i) => entry(`${i}.log`, false))
  let other = ''
  const { readdirSync } = fs
  t.teardown(() => (fs.readdirSync = readdirSync))
  fs.readdirSync = ((path: string) =>
    path === dir ? [entry(other, true), entry('a', true)] : files) as unknown as typeof readdirSync
  // The walk visits the last folder first, and ends at the other one.
  for (other of ['b', 'c', 'd']) {
    writeFileSync(join(dir, `new in ${other}`), '')
    t.ok((await walk()).isCut)
  }
  t.same(failed, [dir, dir, dir])
})

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
    await run.scanned(1)
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

t.test(
  'a new folder below a pattern for any depth is no file that is ignored, and its files are read at once',
  async t => {
    const dir = testFolder(t, { 'app.log': '1\n' })
    const run = await tail({ include: [`${dir}/**`], scan_interval: '1h' })
    await until('the first file', () => run.out.texts().length === 1)
    fs.mkdirSync(join(dir, 'pod'))
    writeFileSync(join(dir, 'pod/0.log'), '2\n')
    await until('the file in the new folder', () => run.out.texts().length === 2)
    t.same(run.log, [])
    await run.stop()
  },
)
