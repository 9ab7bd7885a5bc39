import fs, {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { Tailer } from '../../../../src/components/file/reading/tailer.js'
import { Candidates } from '../../../../src/components/file/rotation/candidates.js'
import type { Reach } from '../../../../src/core/options/reach.js'
import { DirectCalls } from '../../../../src/lib/files/direct-calls.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { laterFiles, Receiver, settled, type Tailing, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const numbered = (from: number, to: number, more = '') =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}${more}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

/** As logrotate does it: the compressed file has the times of the other. */
function compress(path: string): void {
  const changed = statSync(path).mtimeMs / 1000
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)))
  utimesSync(`${path}.gz`, changed, changed)
  unlinkSync(path)
}

function copyTruncate(path: string, copy: string): void {
  copyFileSync(path, copy)
  truncateSync(path)
}

/** A hundred lines of app.log are read, then a hundred more are written while nothing runs. */
async function stopped(t: Test, pattern: string) {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 100)) })
  const path = join(dir, 'app.log')
  const options = { include: [join(dir, pattern)], exclude: ['*.gz'], rotate_wait: '50ms', scan_interval: '20ms' }
  const run = await tail(options)
  await settled(run, 100)
  await run.stop()
  await laterFiles(dir)
  appendFileSync(path, asText(numbered(100, 200)))
  return { dir, path, options, checkpoints: run.checkpoints }
}

interface Case {
  readonly title: string
  /** What happens to the file at `path` while nothing runs, after its lines 100 to 200 were written. */
  readonly act: (path: string) => void
  /** How many lines there are in all. */
  readonly lines: number
}

const CASES: readonly Case[] = [
  { title: 'a plain copy', act: path => copyTruncate(path, `${path}.1`), lines: 200 },
  {
    title: 'a plain copy, and the file was written to since',
    act: path => {
      copyTruncate(path, `${path}.1`)
      appendFileSync(path, asText(numbered(200, 203)))
    },
    lines: 203,
  },
  {
    title: 'a plain copy, and the file grew beyond the old position',
    act: path => {
      copyTruncate(path, `${path}.1`)
      appendFileSync(path, asText(numbered(200, 900)))
    },
    lines: 900,
  },
  {
    title: 'a copy with the date before the extension',
    act: path => copyTruncate(path, path.replace(/\.log$/, '-20260101.log')),
    lines: 200,
  },
  {
    title: 'a copy with a name of its own',
    act: path => copyTruncate(path, path.replace(/\.log$/, '.log.saved')),
    lines: 200,
  },
  {
    title: 'three rotations, the oldest of them compressed',
    act: path => {
      copyTruncate(path, `${path}.1`)
      appendFileSync(path, asText(numbered(200, 240)))
      compress(`${path}.1`)
      renameSync(`${path}.1.gz`, `${path}.3.gz`)
      copyTruncate(path, `${path}.2`)
      appendFileSync(path, asText(numbered(240, 600)))
      compress(`${path}.2`)
      copyTruncate(path, `${path}.1`)
      appendFileSync(path, asText(numbered(600, 610)))
    },
    lines: 610,
  },
  {
    title: 'three rotations by renaming',
    act: path => {
      renameSync(path, `${path}.3`)
      writeFileSync(`${path}.2`, asText(numbered(200, 240)))
      compress(`${path}.2`)
      writeFileSync(`${path}.1`, asText(numbered(240, 600)))
      writeFileSync(path, asText(numbered(600, 610)))
    },
    lines: 610,
  },
]

for (const pattern of ['app.log', 'app*.log*']) {
  for (const { title, act, lines } of CASES) {
    t.test(`rotated while nothing ran, under ${pattern}: ${title}`, async t => {
      const { path, options, checkpoints } = await stopped(t, pattern)
      act(path)
      const run = await tail(options, checkpoints)
      await settled(run, lines - 100)
      t.same(run.out.texts(), numbered(100, lines))
      t.same(
        run.log.filter(({ level }) => level >= 50),
        [],
      )
      await run.stop()
      const again = await tail({ ...options, follow: false }, run.checkpoints)
      await again.run
      t.same(again.out.texts(), [], 'nothing comes twice')
      t.same(
        again.log.filter(({ level }) => level >= 30),
        [],
        'nothing is logged about files that were read',
      )
      await again.stop()
    })
  }
}

t.test('the hole that a writer leaves which does not append is no part of a line', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'app.log')
  const fd = openSync(path, 'w')
  t.teardown(() => closeSync(fd))
  // The hole is larger than two reads, and does not end where a block does.
  const lines = numbered(0, 60_000)
  writeSync(fd, asText(lines))
  const options = { include: [path], scan_interval: '20ms', rotate_wait: '50ms' }
  const run = await tail(options)
  await settled(run, lines.length)
  copyTruncate(path, `${path}.1`)
  writeSync(fd, 'first\nsecond\nthi')
  await settled(run, lines.length + 2)
  writeSync(fd, 'rd\n')
  await settled(run, lines.length + 3)
  t.same(run.out.texts(path).slice(lines.length), ['first', 'second', 'third'])
  const told = run.log.filter(({ msg }) => msg.startsWith('skipped a hole'))
  t.match(told, [{ level: 40, file: path, hole_bytes: asText(lines).length }])
  await run.stop()
  const again = await tail(options, run.checkpoints)
  writeSync(fd, 'fourth\n')
  await settled(again, 1)
  t.same(again.out.texts(path), ['fourth'])
  await again.stop()
})

t.test('a hole that is read before the first line is there', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'app.log')
  writeFileSync(path, '')
  truncateSync(path, 100_000)
  const options = { include: [path], scan_interval: '20ms' }
  const run = await tail(options)
  await run.read(path)
  await run.stop()
  const again = await tail(options, run.checkpoints)
  appendFileSync(path, 'first\n')
  await settled(again, 1)
  t.same(again.out.texts(path), ['first'])
  await again.stop()
})

t.test('NUL bytes that somebody wrote are data', async t => {
  const text = `${'\0'.repeat(5000)}first\nsecond\n`
  const dir = testFolder(t, { 'app.log': text })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], follow: false })
  await run.run
  t.equal(run.out.bytes(path).toString(), text)
  await run.stop()
})

t.test('copied and truncated again and again while nothing can be delivered: every copy is read', async t => {
  // More than is read ahead.
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 90_000)) })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  let makeRoom = () => {}
  out.room = new Promise<void>(resolve => {
    makeRoom = resolve
  })
  const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '1m' }, undefined, out)
  await until(() => out.batches > 0, { show: () => 'the first batch' })
  const truncated = () => run.log.filter(({ msg }) => msg.startsWith('file was truncated')).length
  let lines = 90_000
  for (let i = 1; i <= 4; i++) {
    copyTruncate(path, `${path}-2026010${i}`)
    if (i % 2 === 1) compress(`${path}-2026010${i}`)
    await until(() => truncated() === i, { show: () => `truncation ${i} is noticed, ${truncated()} were` })
    appendFileSync(path, asText(numbered(lines, lines + 100)))
    lines += 100
    // In which it is seen that there is something.
    await run.scanned()
  }
  makeRoom()
  await settled(run, lines)
  t.strictSame(new Set(out.texts()), new Set(numbered(0, lines)))
  t.equal(out.texts().length, lines, 'nothing comes twice')
  t.equal(run.log.filter(({ level }) => level >= 50).length, 0)
  await run.stop()
})

t.test('a copy is compressed beside an older file of its name: both are known for what they are', async t => {
  // More than is read ahead.
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 90_000)), 'app.log.4': 'old\n' })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  let makeRoom = () => {}
  out.room = new Promise<void>(resolve => {
    makeRoom = resolve
  })
  await laterFiles(dir)
  const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '1m' }, undefined, out)
  await until('the first batch', () => out.batches > 0)
  await laterFiles(dir)
  copyTruncate(path, `${path}.1`)
  compress(`${path}.1`)
  renameSync(`${path}.1.gz`, `${path}.4.gz`)
  await until('the truncation', () => run.log.some(({ msg }) => msg.startsWith('file was truncated')))
  await run.scanned(3)
  makeRoom()
  await settled(run, 90_000)
  t.strictSame(out.texts(), numbered(0, 90_000))
  t.equal(run.log.filter(({ level }) => level >= 50).length, 0)
  await run.stop()
})

t.test('a copy that was never seen is renamed before it is its turn', async t => {
  const { path, options, checkpoints } = await stopped(t, 'app.log')
  // More than is read ahead.
  appendFileSync(path, asText(numbered(200, 90_000)))
  copyTruncate(path, `${path}.2`)
  compress(`${path}.2`)
  appendFileSync(path, asText(numbered(90_000, 90_100)))
  copyTruncate(path, `${path}.1`)
  compress(`${path}.1`)
  const out = new Receiver()
  let makeRoom = () => {}
  out.room = new Promise<void>(resolve => {
    makeRoom = resolve
  })
  const run = await tail(options, checkpoints, out)
  await until(() => run.log.some(({ msg }) => msg === 'reading a rotated file that was not seen before'), {
    show: () => `the second copy is found, log ${JSON.stringify(run.log)}`,
  })
  for (const i of [2, 1]) renameSync(`${path}.${i}.gz`, `${path}.${i + 1}.gz`)
  makeRoom()
  await settled(run, 90_000)
  t.strictSame(out.texts(), numbered(100, 90_100))
  t.equal(run.log.filter(({ level }) => level >= 50).length, 0)
  await run.stop()
})

t.test('a line that was read in part is delivered when the copy ends with it', async t => {
  const dir = testFolder(t, { 'app.log': `${asText(numbered(0, 20))}hal` })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path] })
  await run.read(path)
  copyTruncate(path, `${path}.1`)
  appendFileSync(path, 'f a line\n')
  await settled(run, 22)
  t.same(run.out.texts(), [...numbered(0, 20), 'hal', 'f a line'])
  await run.stop()
})

t.test('copies that begin alike are told apart by what stands before the position', async t => {
  const banner = `# ${'the header of every file '.repeat(50)}\n`
  const dir = testFolder(t, { 'app.log': banner + asText(numbered(0, 100)) })
  const path = join(dir, 'app.log')
  const options = { include: [path], scan_interval: '20ms', rotate_wait: '50ms' }
  const run = await tail(options)
  await settled(run, 101)
  await run.stop()
  await laterFiles(dir)
  const others = numbered(0, 300, ' of another file')
  writeFileSync(`${path}.2`, banner + asText(others))
  compress(`${path}.2`)
  await laterFiles(dir)
  appendFileSync(path, asText(numbered(100, 200)))
  copyTruncate(path, `${path}.1`)
  compress(`${path}.1`)
  const next = await tail(options, run.checkpoints)
  await settled(next, 401)
  const texts = next.out.texts()
  t.strictSame(new Set(texts), new Set([banner.slice(0, -1), ...others, ...numbered(100, 200)]))
  t.equal(texts.length, 401, 'nothing comes twice')
  await next.stop()
})

const BANNER = `# ${'the header of every file '.repeat(50)}\n`

/** One more batch is taken, and no other until what this returns is called. */
function block(out: Receiver): () => void {
  let makeRoom = () => {}
  out.room = new Promise<void>(resolve => {
    makeRoom = resolve
  })
  return makeRoom
}

/** Reads are made in another thread, and none before what this returns is called. */
function readApart(t: Test): () => void {
  const { begin } = DirectCalls.prototype
  const { readv } = fs
  let allow = () => {}
  const allowed = new Promise<void>(resolve => {
    allow = resolve
  })
  DirectCalls.prototype.begin = () => undefined
  fs.readv = ((...args: Parameters<typeof readv>) => void allowed.then(() => readv(...args))) as typeof readv
  syncBuiltinESMExports()
  t.teardown(() => {
    DirectCalls.prototype.begin = begin
    fs.readv = readv
    syncBuiltinESMExports()
  })
  return allow
}

const isSearching = ({ log }: Tailing) => log.some(({ msg }) => msg.startsWith('file is gone; searching'))
const isTruncated = ({ log }: Tailing) => log.some(({ msg }) => msg.startsWith('file was truncated'))

t.test('copied, truncated and longer than before while it is read for the first time', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 3)) })
  const path = join(dir, 'app.log')
  const allow = readApart(t)
  const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '10s' })
  await run.scanned()
  copyTruncate(path, `${path}.1`)
  appendFileSync(path, asText(numbered(3, 20)))
  await run.scanned()
  allow()
  await settled(run, 20)
  t.strictSame(run.out.texts(path), numbered(0, 20), 'the copy first')
  await run.stop()
})

t.test('a batch that comes back is read again from a copy that ends before what was read', async t => {
  const dir = testFolder(t, { 'app.log': BANNER + asText(numbered(0, 3)) })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path], scan_interval: '20ms', rotate_wait: '10s' }, undefined, out)
  await run.read(path)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, 'not in the copy\n')
  await run.read(path)
  truncateSync(path)
  await until(() => isTruncated(run), { show: () => run.log })
  await run.scanned(2)
  out.hold = false
  out.settle('errored')
  await run.run.catch(() => {})
  run.again().catch(() => {})
  await settled(run, 1 + 3 + 1 + 1 + 3)
  t.strictSame(out.texts(path).slice(-3), numbered(0, 3))
  await run.stop()
})

t.test('a copy that might have been the one of a file, and was not: it is read, whatever it is renamed to', async t => {
  const dir = testFolder(t, { 'app.log': BANNER + asText(numbered(0, 50)), 'other.log': '' })
  const path = join(dir, 'app.log')
  // For longer than compressed files that nobody saw must be quiet.
  const options = { include: [join(dir, '*.log')], scan_interval: '20ms', rotate_wait: '10s' }
  const run = await tail(options)
  const { out } = run
  await settled(run, 51)
  const makeRoom = block(out)
  appendFileSync(join(dir, 'other.log'), 'other\n')
  await settled(run, 52)
  const first = gzipSync(readFileSync(path))
  const at = statSync(path).mtimeMs / 1000
  writeFileSync(`${path}.1`, BANNER + asText(numbered(50, 90)))
  compress(`${path}.1`)
  truncateSync(path)
  appendFileSync(path, `${BANNER}last\n`)
  await until(() => isTruncated(run), { show: () => `its truncation is noticed, log ${JSON.stringify(run.log)}` })
  renameSync(`${path}.1.gz`, `${path}.2.gz`)
  writeFileSync(`${path}.3.gz`, first)
  utimesSync(`${path}.3.gz`, at, at)
  makeRoom()
  await settled(run, 52 + 2 + 41)
  const texts = out.texts(path).filter(text => !text.startsWith('#'))
  t.strictSame(texts.toSorted(), [...numbered(0, 90), 'last'].toSorted(), 'every line comes once')
  await run.stop()
})

t.test('killed while copies that nobody saw were read: the next start finds the same ones', async t => {
  const dir = testFolder(t, { 'app.log': BANNER })
  const path = join(dir, 'app.log')
  const rotate = () => {
    if (existsSync(`${path}.1.gz`)) renameSync(`${path}.1.gz`, `${path}.2.gz`)
    copyTruncate(path, `${path}.1`)
    compress(`${path}.1`)
    appendFileSync(path, BANNER)
  }
  const options = { include: [path], scan_interval: '20ms', rotate_wait: '50ms' }
  const run = await tail(options)
  await settled(run, 1)
  await run.stop()
  await laterFiles(dir)
  appendFileSync(path, asText(numbered(0, 50)))
  rotate()
  appendFileSync(path, asText(numbered(50, 80)))
  const changed = Date.now()
  await laterFiles(dir)
  const out = new Receiver()
  out.hold = true
  const { checkpoints } = run
  const killed = await tail(options, checkpoints, out)
  await settled(killed, 51 + 30)
  const saved = () => checkpoints.document as { looked: number; displaced: [] }
  await until(
    () => {
      void checkpoints.flush()
      return saved().looked > changed && saved().displaced.length === 0
    },
    { show: () => `what was rotated is known, saved ${JSON.stringify(saved())}` },
  )
  await killed.kill()
  rotate()
  appendFileSync(path, asText(numbered(80, 90)))
  const next = await tail(options, checkpoints)
  await settled(next, 51 + 31 + 10)
  const texts = new Set(next.out.texts())
  t.strictSame([...texts].filter(text => !text.startsWith('#')).toSorted(), numbered(0, 90).toSorted())
  t.equal(next.log.filter(({ level }) => level >= 50).length, 0)
  await next.stop()
})

t.test('a copy stays that of the file it was read of, however long that is kept', async t => {
  const dir = testFolder(t, { 'app.log': '', 'other.log': '' })
  const [path, other] = [join(dir, 'app.log'), join(dir, 'other.log')]
  let ms = 0
  const clock = { ...systemClock, now: () => systemClock.now() + ms }
  const options = { include: [join(dir, '*.log')], scan_interval: '20ms', rotate_wait: '2h' }
  const run = await tail(options, undefined, undefined, clock)
  const { out } = run
  const truncations = () => run.log.filter(({ msg }) => msg.startsWith('file was truncated')).length
  for (const i of [0, 1]) {
    const makeRoom = block(out)
    appendFileSync(other, 'other\n')
    await settled(run, i * 42 + 1)
    appendFileSync(path, BANNER + asText(numbered(i * 40, i * 40 + 40)))
    // In which it is seen that there is something.
    await run.scanned()
    if (i > 0) renameSync(`${path}.1.gz`, `${path}.2.gz`)
    copyTruncate(path, `${path}.1`)
    compress(`${path}.1`)
    await until(() => truncations() === i + 1, { show: () => `truncation ${i + 1}, log ${JSON.stringify(run.log)}` })
    makeRoom()
    await settled(run, (i + 1) * 42)
    // The next sweep looks for everything again.
    ms += 1_800_000
    await run.scanned()
  }
  t.strictSame(
    out.texts(path).filter(text => !text.startsWith('#')),
    numbered(0, 80),
  )
  await run.stop()
})

for (const [isThere, isPlain] of [
  [true, true],
  [true, false],
  [false, false],
]) {
  const title = isThere ? 'is there as well' : 'comes later'
  t.test(`a ${isPlain ? 'plain ' : ''}copy of another file begins alike, and the right one ${title}`, async t => {
    const dir = testFolder(t, { 'app.log': '', 'other.log': '' })
    const path = join(dir, 'app.log')
    await laterFiles(dir)
    // Of the same size where that can be confused.
    const others = isThere && !isPlain ? numbered(0, 50) : numbered(0, 10)
    writeFileSync(`${path}.2`, BANNER + asText(others.map(line => line.replace('line', 'item'))))
    if (!isPlain) compress(`${path}.2`)
    await laterFiles(dir)
    const options = { include: [join(dir, '*.log')], scan_interval: '20ms', rotate_wait: '10s' }
    const run = await tail(options)
    const makeRoom = block(run.out)
    appendFileSync(join(dir, 'other.log'), 'other\n')
    await settled(run, 1)
    appendFileSync(path, BANNER + asText(numbered(0, 50)))
    // In which it is seen how much there is.
    await run.scanned()
    if (isThere) {
      copyTruncate(path, `${path}.1`)
      compress(`${path}.1`)
    } else {
      copyTruncate(path, join(dir, 'copy'))
    }
    await until(() => isSearching(run), { show: () => `a copy is found, log ${JSON.stringify(run.log)}` })
    if (!isThere) {
      compress(join(dir, 'copy'))
      // However many sweeps there were since the copy was made.
      utimesSync(join(dir, 'copy.gz'), new Date(), new Date())
      renameSync(join(dir, 'copy.gz'), `${path}.1.gz`)
    }
    makeRoom()
    const lines = () => run.out.texts(path).filter(text => text.startsWith('line'))
    await until(() => lines().length >= 50, { show: () => `its lines, log ${JSON.stringify(run.log)}` })
    t.strictSame(lines(), numbered(0, 50))
    t.equal(run.out.lines.length, isThere ? 52 : 63)
    await run.stop()
  })
}

t.test('a file that nobody saw is compressed when it is to be read, and another copy begins alike', async t => {
  const dir = testFolder(t, { 'app.log': BANNER + asText(numbered(0, 30)) })
  const path = join(dir, 'app.log')
  let isCompressed = false
  const reach: Reach = {
    realFile: file => {
      if (file === `${path}.1` && existsSync(file)) {
        compress(file)
        renameSync(`${file}.gz`, join(dir, 'first.gz'))
        compress(`${path}.2`)
        renameSync(`${path}.2.gz`, join(dir, 'second.gz'))
        isCompressed = true
      }
      return file
    },
    confirm: async () => {},
    deniedAddress: () => undefined,
  }
  const options = { include: [path], rotate_wait: '10s', scan_interval: '20ms' }
  const run = await tail(options, undefined, undefined, undefined, reach)
  await settled(run, 31)
  // Two rotations before anybody looks. The oldest file is open, was read to its end, and was written to last but one.
  renameSync(path, `${path}.2`)
  writeFileSync(path, BANNER + asText(numbered(30, 50)))
  const born = Math.ceil(statSync(path).birthtimeMs) / 1000
  utimesSync(`${path}.2`, born + 0.01, born + 0.01)
  utimesSync(path, born + 0.02, born + 0.02)
  renameSync(path, `${path}.1`)
  writeFileSync(path, BANNER + asText(numbered(50, 60)))
  const lines = () => run.out.texts(path).filter(text => !text.startsWith('#'))
  await until(() => isCompressed && lines().length >= 60, {
    show: () => `all lines, got ${JSON.stringify(lines())}, log ${JSON.stringify(run.log)}`,
  })
  t.strictSame(lines().toSorted(), numbered(0, 60).toSorted())
  await run.stop()
})

t.test(
  'renamed, and then copied and truncated, while nothing runs: the copy has the rest under its new name',
  async t => {
    const dir = testFolder(t, { 'app.log': asText(numbered(0, 10)) })
    const [path, other] = [join(dir, 'app.log'), join(dir, 'other.log')]
    const options = { include: [path, other] }
    const first = await tail(options)
    await settled(first, 10)
    await first.stop()
    renameSync(path, other)
    appendFileSync(other, asText(numbered(10, 12)))
    copyFileSync(other, `${other}.1`)
    truncateSync(other)
    appendFileSync(other, asText(numbered(12, 13)))
    const next = await tail(options, first.checkpoints)
    await settled(next, 3)
    t.same(next.out.texts().toSorted(), numbered(10, 13).toSorted())
    t.same(
      next.log.filter(({ level }) => level >= 50),
      [],
    )
    await next.stop()
  },
)

t.test('a copy is written while its file, which was empty, is opened to be read', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 100)) })
  const [path, copy] = [join(dir, 'app.log'), join(dir, 'app_old.log')]
  const run = await tail({ include: [join(dir, '*.log')] })
  await settled(run, 100)
  const { left } = Tailer.prototype
  Tailer.prototype.left = function () {
    if (this.path === copy && statSync(copy).size === 0) copyFileSync(path, copy)
    return left.call(this)
  }
  t.teardown(() => (Tailer.prototype.left = left))
  writeFileSync(copy, '')
  await until('the copy', () => statSync(copy).size > 0)
  await run.scanned(3)
  truncateSync(path)
  appendFileSync(path, 'after\n')
  await settled(run, 101)
  await run.scanned(3)
  t.same(run.out.texts(), [...numbered(0, 100), 'after'])
  await run.stop()
})

t.test('copies of small files are found before anything is in them, and one file can be open', async t => {
  const dir = testFolder(t, { 'a.log': 'a 1\na 2\n', 'b.log': 'b 1\nb 2\n' })
  const run = await tail({ include: [join(dir, '*')], max_open_files: 1, rotate_wait: '1h' })
  await settled(run, 4)
  const paths = [join(dir, 'a.log'), join(dir, 'b.log')]
  for (const path of paths) writeFileSync(`${path}.1`, '')
  await run.scanned(3)
  for (const path of paths) copyFileSync(path, `${path}.1`)
  await run.scanned(3)
  for (const path of paths) truncateSync(path)
  for (const path of paths) appendFileSync(path, 'after\n')
  await settled(run, 6)
  await run.scanned(3)
  t.equal(run.out.lines.length, 6, 'nothing comes twice')
  await run.stop()
})

t.test('a file is truncated, and read again, while its copies are compared: nothing comes twice', async t => {
  const dir = testFolder(t, { 'app.log': BANNER + asText(numbered(0, 100)) })
  const [path, copy] = [join(dir, 'app.log'), join(dir, 'app.log.1')]
  // It begins alike, so it is inflated to be compared.
  writeFileSync(`${path}.2.gz`, gzipSync(`${BANNER}older\n`))
  await laterFiles(dir)
  const run = await tail({ include: [join(dir, '*')], exclude: ['*.gz'], rotate_wait: '1h' })
  await settled(run, 101)
  const { holds } = Tailer.prototype
  const { inflate } = Candidates.prototype
  t.teardown(() => {
    Object.assign(Tailer.prototype, { holds })
    Object.assign(Candidates.prototype, { inflate })
  })
  Tailer.prototype.holds = function () {
    const result = holds.call(this)
    if (this.path === path && existsSync(copy)) truncateSync(path)
    return result
  }
  Candidates.prototype.inflate = async function (question) {
    await until('the truncation', () => isTruncated(run))
    return await inflate.call(this, question)
  }
  copyFileSync(path, copy)
  await until('the truncation', () => isTruncated(run))
  await run.scanned(3)
  Tailer.prototype.holds = holds
  appendFileSync(path, 'after\n')
  await settled(run, 102)
  await run.scanned(3)
  t.same(run.out.texts(), [BANNER.slice(0, -1), ...numbered(0, 100), 'after'])
  await run.stop()
})
