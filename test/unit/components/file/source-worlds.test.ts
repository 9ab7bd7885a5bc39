import { createHash } from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { CLOCK_MS, fingerprint, NO_BYTES } from '../../../../src/components/file/identity.js'
import { positionOf } from '../../../../src/components/file/positions.js'
import { ofEntry } from '../../../../src/components/file/rotation/subjects.js'
import { Trail } from '../../../../src/components/file/rotation/trail.js'
import { Unseen } from '../../../../src/components/file/rotation/unseen.js'
import { type Entry, Saved } from '../../../../src/components/file/saved.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, laterFiles, MemoryCheckpoints, Receiver, settled, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

type UnseenOptions = ConstructorParameters<typeof Unseen>[0]

/** What the worlds of `npm run sim -- --files` found, each without its world. */

t.test('a read that overlaps the one before adds no place twice, and none whose bytes are unknown', async t => {
  const trail = new Trail()
  const text = Buffer.from('a\nb\nc\nd')
  const tailAt = (offset: number) => fingerprint(text, 0, offset)
  trail.add(0, 4, text.subarray(0, 4), tailAt)
  // A batch came back.
  trail.add(2, 7, text.subarray(2), tailAt)
  t.same(
    [2, 4, 6, 7].map(size => trail.within(size)?.offset),
    [2, 4, 6, 7],
  )
  t.equal(trail.within(5), undefined, 'within a line')
  t.same(trail.within(6)?.tail, tailAt(6))
  trail.add(20, 22, Buffer.from('z\n'), () => NO_BYTES)
  t.equal(trail.within(22), undefined, 'after a gap')
})

/** The position of a file at `path` with this inode, up to which all of it was delivered. */
const entryOf = (path: string, ino: string, birth: string, offset: number, more: Partial<Entry> = {}): Entry => {
  const text = Buffer.alloc(offset, path)
  const known = fingerprint(text, 0, Math.min(offset, 1024))
  return { path, dev: '1', ino, birth, offset, continues: false, head: known, tail: known, ...more }
}

t.test('a copy of a copy may have the times of the first file', async t => {
  const born = (claimed: string) => ofEntry(entryOf('/app.log.1', '5', '2000000000', 10, { claimed }), undefined).birth
  t.equal(born('1:5'), 0)
  t.equal(born('1:51'), 2000)
})

t.test('a copy is known although it has the inode of an earlier one', async t => {
  const files = [
    entryOf('/app.log.3', '4', '1', 1000, { claimed: '1:4', size: 2000 }),
    entryOf('/app.log.1', '4', '2', 4000, { claimed: '1:4' }),
  ]
  const saved = new Saved({ version: 1, saved: 0, files })
  t.same(Array.from(saved.entries(), ({ offset }) => offset).sort(), [1000, 4000])
})

t.test('a copy is known although an earlier file with its inode was the copy of less', async t => {
  const [short, long] = [
    entryOf('/app.log', '3', '1', 65, { claimed: '1:6', gone: true }),
    entryOf('/a', '6', '2', 1300),
  ]
  const known = (begins: boolean) => {
    const tail = begins ? short.tail : entryOf('/other', '3', '1', 65).tail
    const files = [short, { ...long, claimed: '1:6', marks: [{ offset: 65, tail }] }]
    return [...new Saved({ version: 1, saved: 0, files }).entries()].length
  }
  t.equal(known(false), 2)
  t.equal(known(true), 1, 'the copy must be searched again')
})

t.test('a copy may end where an earlier run stopped reading', async t => {
  t.same(positionOf(entryOf('/app.log', '3', '1', 1289)).marks?.at(-1)?.offset, 1289)
  t.same(positionOf(entryOf('/app.log', '3', '1', 4000)).marks, [], 'a large file has few marks')
})

t.test('files are searched from the earliest time at which their name had another file', async t => {
  const unseen = new Unseen({ saved: new Saved(undefined) } as UnseenOptions)
  for (const since of [2000, 1000, 3000]) unseen.displaced('/app.log', since)
  t.equal(unseen.since('/app.log'), 1000 - CLOCK_MS)
})

t.test('a batch from a compressed copy comes back, and the copy has another name by then', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  await first.stop()
  writeFileSync(`${path}.1.gz`, gzipSync('line 0\nline 1\n'))
  rmSync(path)
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path] }, first.checkpoints, out)
  await arrived(run, 1)
  renameSync(`${path}.1.gz`, `${path}.2.gz`)
  out.hold = false
  out.settle('errored')
  await t.rejects(run.run)
  void run.again()
  await arrived(run, 2)
  t.same(out.texts(), ['line 1', 'line 1'])
  await run.stop()
})

t.test('a truncated file has a copy, and lines that were read but not delivered at a kill', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const options = { include: [`${path}*`] }
  const first = await tail(options)
  await settled(first, 1)
  first.out.hold = true
  appendFileSync(path, Array.from({ length: 300 }, (_, n) => `line ${n + 1}\n`).join(''))
  await arrived(first, 301)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, 'during the copy\n')
  await arrived(first, 302)
  truncateSync(path)
  await until('the truncation', () => first.value('sluice_file_truncations_total') === 1)
  await first.scanned(3)
  await first.checkpoints.flush()
  await first.kill()
  const next = await tail(options, first.checkpoints)
  await settled(next, 300)
  await next.scanned(3)
  t.equal(next.out.texts().length, 300)
  await next.stop()
})

t.test('what was seen and not read before a stop is lost, and reported, when the file is deleted', async t => {
  const dir = testFolder(t, { 'app.log': '' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await first.scanned()
  first.out.hold = true
  appendFileSync(path, 'line 0\n')
  await arrived(first, 1)
  appendFileSync(path, 'line 1\n')
  await first.stop()
  rmSync(path)
  const next = await tail({ include: [path] }, first.checkpoints)
  await until('the loss', () => next.value('sluice_file_lost_bytes_total') === 14)
  await next.stop()
})

t.test('the target of a link is rotated during a stop', async t => {
  const dir = testFolder(t)
  const target = join(dir, 'target', 'app.log')
  const path = join(dir, 'app.log')
  mkdirSync(join(dir, 'target'))
  writeFileSync(target, 'line 0\n')
  symlinkSync(target, path)
  const first = await tail({ include: [path] })
  await settled(first, 1)
  await first.stop()
  appendFileSync(target, 'line 1\n')
  renameSync(target, `${target}.1`)
  writeFileSync(target, 'line 2\n')
  const next = await tail({ include: [path] }, first.checkpoints)
  await settled(next, 2)
  t.same(next.out.texts(), ['line 1', 'line 2'])
  await next.stop()
})

t.test('a copy of a few lines that ends within one is known after the truncation', async t => {
  const text = 'a line of some length\n'.repeat(10)
  const dir = testFolder(t, { 'app.log': text })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [`${path}*`] })
  await settled(run, 10)
  writeFileSync(`${path}.1`, text.slice(0, -5))
  await run.scanned(3)
  truncateSync(path)
  await until('the truncation', () => run.value('sluice_file_truncations_total') === 1)
  await run.scanned(3)
  appendFileSync(path, 'last\n')
  await settled(run, 11)
  await run.scanned(3)
  t.equal(run.out.texts().length, 11)
  await run.stop()
})

t.test('a file is truncated again as soon as a truncation was found', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path] })
  await settled(run, 1)
  const { push } = run.log
  run.log.push = (...lines) => {
    if (lines[0]?.msg.startsWith('file was truncated') && statSync(path).size > 0) truncateSync(path)
    return push.apply(run.log, lines)
  }
  writeFileSync(path, 'x\n')
  await until('both truncations', () => run.value('sluice_file_truncations_total') === 2)
  writeFileSync(path, 'y\n')
  await settled(run, 2)
  t.same(run.out.texts(), ['line 0', 'y'])
  await run.stop()
})

t.test('of several files that were renamed during a stop, the oldest is read first', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] }, new MemoryCheckpoints())
  await settled(first, 1)
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'line 1\n')
  await settled(first, 2)
  await first.stop()
  appendFileSync(`${path}.1`, 'line 2\n')
  renameSync(`${path}.1`, `${path}.2`)
  // Times of files are a few milliseconds apart at least.
  await new Promise(resolve => setTimeout(resolve, 20))
  appendFileSync(path, 'line 3\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'line 4\n')
  const next = await tail({ include: [path] }, first.checkpoints)
  await settled(next, 3)
  t.same(next.out.texts(), ['line 2', 'line 3', 'line 4'])
  await next.stop()
})

t.test('a compressed file that is still being written at a start is read when it is complete', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  await first.stop()
  // Another file had the name meanwhile.
  const lines = Array.from({ length: 10 }, (_, n) => createHash('sha1').update(`${n}`).digest('hex'))
  const whole = gzipSync(`${lines.join('\n')}\n`)
  writeFileSync(`${path}.1.gz`, whole.subarray(0, whole.length - 100))
  rmSync(path)
  writeFileSync(path, 'last\n')
  // However slow the test is, the file was just written.
  let wall = systemClock.wall()
  const clock = { ...systemClock, wall: () => wall }
  const next = await tail({ include: [path] }, first.checkpoints, new Receiver(), clock)
  await next.scanned(2)
  t.same(next.out.texts(), [])
  writeFileSync(`${path}.1.gz`, whole)
  wall += 60_000
  await settled(next, lines.length + 1)
  t.same(next.out.texts(), [...lines, 'last'])
  await next.stop()
})

t.test('a file that takes its name during the search at a start comes after the file that had it', async t => {
  const path = join(testFolder(t, { 'app.log': 'line 0\n' }), 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  await first.stop()
  rmSync(path)
  writeFileSync(`${path}.1.gz`, gzipSync('line 1\n'))
  // However slow the test is, the compressed file was just written.
  let wall = statSync(`${path}.1.gz`).ctimeMs
  const clock = { ...systemClock, wall: () => wall }
  const next = await tail({ include: [path] }, first.checkpoints, new Receiver(), clock)
  await next.scanned()
  writeFileSync(path, 'line 2\n')
  await next.scanned(2)
  wall += 60_000
  await settled(next, 2)
  t.same(next.out.texts(), ['line 1', 'line 2'])
  await next.stop()
})

t.test('at a start, the beginning of a copy in progress is not read as an unseen file', async t => {
  const content = Array.from({ length: 10 }, (_, n) => `line ${n}\n`).join('')
  const dir = testFolder(t, { 'app.log': content })
  const [path, copy] = [join(dir, 'app.log'), join(dir, 'app-20260101.log')]
  const first = await tail({ include: [path] })
  await settled(first, 10)
  await first.stop()
  await laterFiles(dir)
  writeFileSync(copy, content.slice(0, 21))
  // However slow the test is, the copy was just written.
  let wall = statSync(copy).ctimeMs
  const clock = { ...systemClock, wall: () => wall }
  const next = await tail({ include: [path] }, first.checkpoints, new Receiver(), clock)
  await next.scanned(2)
  appendFileSync(copy, content.slice(21))
  truncateSync(path)
  appendFileSync(path, 'last\n')
  wall += 60_000
  await settled(next, 1)
  t.same(next.out.texts(), ['last'])
  await next.stop()
})

t.test('a file with an old time is known when it is compressed', async t => {
  const dir = testFolder(t, { 'a.log': 'line 0\n' })
  const path = join(dir, 'a.log')
  utimesSync(path, 1_700_000_000, 1_700_000_000)
  const time = new TestTime()
  const options = { include: [`${dir}/*`], rotate_wait: '1m' }
  const run = await tail(options, new MemoryCheckpoints(), new Receiver(), time)
  await settled(run, 1)
  writeFileSync(`${path}.gz`, gzipSync('line 0\n'))
  utimesSync(`${path}.gz`, 1_700_000_000, 1_700_000_000)
  rmSync(path)
  await run.scanned(2)
  time.ms += 60_000
  writeFileSync(path, 'line 1\n')
  await settled(run, 2)
  await run.scanned(2)
  t.same(run.out.texts(), ['line 0', 'line 1'])
  await run.stop()
})

t.test('a file that has the inode of a known one, and the name of its copy, keeps the name that it had', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const options = { include: [`${path}*`], follow: false }
  const first = await tail(options)
  await first.run
  await first.stop()
  await laterFiles(dir)
  rmSync(path)
  // Its times do not show that the file system keeps birth times.
  const stat = await until('a file that is written as soon as it is born', () => {
    rmSync(`${path}.1`, { force: true })
    writeFileSync(`${path}.1`, 'line 1\n')
    const { dev, ino, birthtimeNs, ctimeNs } = statSync(`${path}.1`, { bigint: true })
    return birthtimeNs === ctimeNs && { dev: `${dev}`, ino: `${ino}` }
  })
  const document = first.checkpoints.document as { files: Entry[] }
  document.files = document.files.map(entry => ({ ...entry, ...stat }))
  const next = await tail(options, first.checkpoints)
  await next.run
  t.same(next.out.texts(path), ['line 1'])
})

t.test('a file whose copy is gone does not claim the file that has the inode of the copy', async t => {
  const content = Array.from({ length: 100 }, (_, n) => `line ${n}\n`).join('')
  const path = join(testFolder(t, { 'app.log': content }), 'app.log')
  const options = { include: [path], scan_interval: '50ms' }
  const first = await tail(options)
  await settled(first, 100)
  await first.stop()
  await laterFiles(dirname(path))
  writeFileSync(`${path}.2`, 'another file\n')
  const { dev, ino } = statSync(`${path}.2`)
  const document = first.checkpoints.document as { files: Entry[] }
  document.files = document.files.map(entry => ({ ...entry, claimed: `${dev}:${ino}` }))
  const run = await tail(options, first.checkpoints)
  await settled(run, 1)
  writeFileSync(`${path}.1`, content.slice(0, 550))
  await run.scanned(2)
  t.same(run.out.texts(), ['another file'], 'a copy of a part is known')
  await run.stop()
})

/** Two files that a killed run saw and did not read; only the first kilobyte of app.log is known. */
async function unread(t: Test) {
  const dir = testFolder(t, { 'app.log': `${HEADER}\nold\n` })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  out.room = new Promise<void>(() => {})
  const first = await tail({ include: [path] }, undefined, out)
  await first.scanned()
  await first.stop()
  const document = first.checkpoints.document as { looked: number; files: Entry[] }
  const [entry] = document.files as [Entry]
  document.files = [{ ...entry, offset: 0, tail: NO_BYTES, size: statSync(path).size }]
  return { path, document, checkpoints: first.checkpoints }
}

const HEADER = 'the same header,'.repeat(70)

t.test('the copy of an unread file has the inode that the file had before', async t => {
  const { path, document, checkpoints } = await unread(t)
  await laterFiles(dirname(path))
  renameSync(path, `${path}.1`)
  writeFileSync(path, '')
  const [entry] = document.files as [Entry]
  document.files = [{ ...entry, birth: `${BigInt(entry.birth) - 1n}` }]
  const next = await tail({ include: [path] }, checkpoints)
  await settled(next, 2)
  t.same(next.out.texts(path), [HEADER, 'old'])
  t.same(
    next.log.filter(({ level }) => level >= 40),
    [],
  )
  await next.stop()
})

t.test('a file was truncated, written and copied before a search, and not read', async t => {
  const { path, document, checkpoints } = await unread(t)
  const sure = Date.now()
  await laterFiles(dirname(path))
  copyFileSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, 'unknown\n')
  writeFileSync(path, 'new\n')
  await laterFiles(dirname(path))
  document.looked = Date.now()
  document.files = document.files.map(entry => ({ ...entry, sure }))
  const next = await tail({ include: [path] }, checkpoints)
  await settled(next, 4)
  t.same(next.out.texts(path).toSorted(), [HEADER, 'new', 'old', 'unknown'].toSorted())
  await next.stop()
})

t.test('an unread file was truncated and written, and no sweep has seen it until the stop', async t => {
  const dir = testFolder(t, { 'app.log': `${HEADER}\nold\n` })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  out.room = new Promise<void>(() => {})
  const first = await tail({ include: [path], scan_interval: '1h' }, undefined, out)
  await arrived(first, 2)
  appendFileSync(path, 'more\n')
  copyFileSync(path, `${path}.1`)
  writeFileSync(path, `other${HEADER}${HEADER}`)
  await first.stop()
  t.same(
    (first.checkpoints.document as { files: Entry[] }).files.map(({ size }) => size),
    [undefined],
  )
})

t.test('while nothing runs, a file is deleted, and another one comes and goes under its name', async t => {
  const dir = testFolder(t, { 'app.log': 'line 0\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  await first.stop()
  await laterFiles(dir)
  rmSync(path)
  writeFileSync(`${path}.1`, 'line 1\n')
  const next = await tail({ include: [path] }, first.checkpoints)
  await settled(next, 1)
  t.same(next.out.texts(path), ['line 1'])
  await next.stop()
})
