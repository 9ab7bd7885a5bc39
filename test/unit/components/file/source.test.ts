import fs, {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { fileSource } from '../../../../src/components/file/source.js'
import { LimitedReach } from '../../../../src/engine/config/published/limited-reach.js'
import { CONTINUES, PIECE } from '../../../../src/lib/lines/line-splitter.js'
import { nextTurn, systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { Seeded } from '../../../support/seeded.js'
import {
  arrived,
  laterFiles,
  MemoryCheckpoints,
  Receiver,
  settled,
  type Tailing,
  tail,
} from '../../../support/tailing.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

t.test('every byte arrives once and in order, whatever the bytes', async t => {
  const random = new Seeded(1)
  const parts: Buffer[] = []
  for (let i = 0; i < 4000; i++) {
    const length = random.chance(0.01) ? random.below(20_000) : random.below(300)
    const bytes = Buffer.from(
      Array.from({ length }, () => random.below(256)).filter(byte => length < 300 || byte !== 10),
    )
    parts.push(bytes, Buffer.from(random.pick(['\n', '\r\n', '\n\n', '\0\n'])))
  }
  const content = Buffer.concat([...parts, Buffer.from('no line end')])
  const dir = testFolder(t, { 'a.log': content, 'empty.log': '', 'b.log': '\n\n', 'c.log': '\r\n', 'd.log': 'x' })
  const run = await tail({ include: [join(dir, '*.log')], follow: false, max_line_bytes: 4096 })
  await run.run
  t.ok(run.out.bytes(join(dir, 'a.log')).equals(content))
  t.equal(run.out.bytes(join(dir, 'b.log')).toString(), '\n\n')
  t.equal(run.out.bytes(join(dir, 'c.log')).toString(), '\r\n')
  t.equal(run.out.bytes(join(dir, 'd.log')).toString(), 'x')
  t.equal(run.out.bytes(join(dir, 'empty.log')).length, 0)
  t.ok(run.value('sluice_line_pieces_total')! > 10)
  t.equal(run.value('sluice_files_watched'), 5)
  t.equal(run.value('sluice_files_open'), 0, 'all files are closed at the end')
  t.equal(run.value('sluice_file_unread_bytes', { file: join(dir, 'a.log') }), 0)
  await run.stop()
  const next = await tail({ include: [join(dir, '*.log')], follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.lines, [], 'nothing comes twice')
})

t.test('a file that was opened is read, also if its name is gone a moment later', async t => {
  const dir = testFolder(t, { 'a.log': 'one\ntwo\n' })
  const fd = openSync(join(dir, 'a.log'), 'r')
  t.teardown(() => closeSync(fd))
  unlinkSync(join(dir, 'a.log'))
  // It can still be opened by this name, which leads to no name any more.
  const run = await tail({ include: [`/proc/self/fd/${fd}`], follow: false })
  await run.run
  t.same(run.out.texts(), ['one', 'two'])
  await run.stop()
})

t.test('a source with bounds does not follow a link out of them', async t => {
  const dir = testFolder(t, { logs: { 'a.log': 'fine\n' }, secret: 'secret\n' })
  const path = (name: string) => join(dir, name)
  symlinkSync(path('secret'), path('logs/b.log'))
  symlinkSync(path('logs/a.log'), path('logs/c.log'))
  const reach = new LimitedReach({ files: [path('logs/**')], never: [], urls: 'all', listen: [], credentials: [] })
  const run = await tail({ include: [path('logs/*.log')] }, undefined, undefined, undefined, reach)
  await until('the link is refused', () =>
    run.log.some(({ level, file }) => level >= 40 && file === path('logs/b.log')),
  )
  await until('the other file is read', () => run.out.lines.length > 0)
  t.same(run.out.texts(), ['fine'])
  t.match(JSON.stringify(run.log), /b\.log leads to [^ ]*secret, which is not among the files/)
  await run.stop()
})

t.test('appends are seen within 100 ms, and many small ones cost few batches', async t => {
  const dir = testFolder(t, { 'a.log': 'first\n' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], scan_interval: '1h' })
  await arrived(run, 1)
  const times: number[] = []
  for (let i = 0; i < 10; i++) {
    const before = performance.now()
    appendFileSync(path, `line ${i}\n`)
    await until('the append', () => run.out.lines.length === i + 2)
    times.push(performance.now() - before)
  }
  // Looks at intervals would find none of them at once: each append follows the look that found the one before.
  t.ok(Math.min(...times) < 100, `${times} ms`)
  const batches = run.out.batches
  for (let i = 0; i < 1000; i++) {
    appendFileSync(path, `small ${i}\n`)
    if (i % 10 === 0) await nextTurn()
  }
  await arrived(run, 1011)
  t.ok(run.out.batches - batches < 100, `${run.out.batches - batches} batches`)
  t.ok(run.out.bytes(path).equals(readFileSync(path)))
  await run.stop()
})

t.test('an unfinished line waits for its end, is delivered once after its time, and is continued', async t => {
  const dir = testFolder(t, { 'a.log': 'whole\nhal', 'other.log': '' })
  const [path, other] = [join(dir, 'a.log'), join(dir, 'other.log')]
  const options = { include: [path, other], partial_line_timeout: '1m' }
  let ms = 0
  const clock = { ...systemClock, now: () => systemClock.now() + ms }
  const start = (checkpoints?: MemoryCheckpoints) => tail(options, checkpoints, undefined, clock)
  const got = (run: Tailing, count: number) =>
    until(() => run.out.texts(path).length === count, { show: () => `${count} lines, got ${run.out.texts(path)}` })
  let others = 0
  /** Lets the time for unfinished lines elapse, and another file wake the reader. */
  const later = async (run: Tailing) => {
    ms += 61_000
    const before = run.out.texts(other).length
    appendFileSync(other, `${++others}\n`)
    await until('the other file', () => run.out.texts(other).length > before)
  }
  const run = await start()
  await got(run, 1)
  t.same(run.out.texts(path), ['whole'])
  appendFileSync(path, 'f\nthe ')
  await got(run, 2)
  t.same(run.out.texts(path), ['whole', 'half'])
  await run.read(path)
  await later(run)
  await got(run, 3)
  t.equal(run.out.texts(path)[2], 'the ')
  for (let i = 0; i < 2; i++) await later(run)
  t.equal(run.out.texts(path).length, 3)
  await run.stop()
  appendFileSync(path, 'rest\r\nnext')
  const next = await start(run.checkpoints)
  await got(next, 1)
  await next.read(path)
  await later(next)
  await got(next, 2)
  t.match(
    next.out.lines.filter(({ file }) => file === path),
    [
      { text: 'rest', flags: CONTINUES | 2 },
      { text: 'next', flags: 0 },
    ],
  )
  await next.kill()
  t.same((next.checkpoints.document as { files: unknown[] }).files.length, 2)
  t.equal(run.out.bytes(path).toString() + next.out.bytes(path).toString(), 'whole\nhalf\nthe rest\r\nnext')
})

t.test('a line over the limit comes in pieces, across a kill too', async t => {
  const long = Buffer.from(Array.from({ length: 5000 }, (_, i) => `${i},`).join(''))
  const dir = testFolder(t, { 'a.log': Buffer.concat([long, Buffer.from('\nshort\n')]) })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path], max_line_bytes: 1024 }, new MemoryCheckpoints(), out)
  await until('all pieces', () => out.lines.some(line => line.text === 'short'))
  t.ok(out.lines.slice(0, -2).every(line => line.flags & PIECE && line.text.length <= 1024))
  t.ok(out.bytes(path).equals(readFileSync(path)))
  t.ok(run.value('sluice_line_pieces_total')! >= 20)
  await run.kill()
})

t.test('a position inside of a line resumes there', async t => {
  const dir = testFolder(t, { 'a.log': 'x'.repeat(3000) })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], max_line_bytes: 1024 })
  await settled(run, 2)
  await run.stop()
  t.equal(run.out.bytes(path).length, 2048)
  appendFileSync(path, 'y\nnext\n')
  const next = await tail({ include: [path], max_line_bytes: 1024 }, run.checkpoints)
  await settled(next, 2)
  t.match(next.out.lines, [
    { text: `${'x'.repeat(952)}y`, flags: CONTINUES | 1 },
    { text: 'next', flags: 1 },
  ])
  await next.stop()
})

t.test('a byte order mark at the beginning of a file is not part of the first line', async t => {
  const MARK = '\ufeff'
  const AS_READ = Buffer.from(MARK).toString('latin1')
  const dir = testFolder(t, { 'a.log': `${MARK}a1\n${MARK}a2\na3`, 'marked.log': MARK, 'empty.log': '' })
  const [a, marked, empty] = ['a', 'marked', 'empty'].map(name => join(dir, `${name}.log`)) as [string, string, string]
  const options = { include: [join(dir, '*.log')], scan_interval: '20ms', rotate_wait: '50ms' }
  const run = await tail(options)
  await settled(run, 2)
  await run.read(marked)
  t.equal(run.value('sluice_file_unread_bytes', { file: marked }), 0, 'a mark is not a line that waits')
  appendFileSync(empty, `${MARK}e1\n`)
  await settled(run, 3)
  renameSync(a, `${a}.1`)
  writeFileSync(a, `${MARK}b1\n`)
  await settled(run, 5)
  await run.stop()
  t.same(run.out.texts(a).sort(), ['a1', 'a3', 'b1', `${AS_READ}a2`])
  t.same(run.out.texts(empty), ['e1'])
  const { files } = run.checkpoints.document as { files: { path: string; offset: number }[] }
  t.same(Object.fromEntries(files.map(({ path, offset }) => [basename(path), offset])), {
    'a.log': 6,
    'marked.log': 3,
    'empty.log': 6,
  })
  // Behind the beginning the same bytes are data, also for a start that has not seen the beginning.
  for (const path of [a, marked, empty]) appendFileSync(path, `${MARK}more\n`)
  const next = await tail({ ...options, follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.texts(), Array(3).fill(`${AS_READ}more`))
  await next.stop()
})

t.test('positions are committed in order, whatever order batches settle in', async t => {
  const dir = testFolder(t, { 'a.log': '' })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path] }, new MemoryCheckpoints(), out)
  for (let i = 0; i < 5; i++) {
    appendFileSync(path, `line ${i}\n`)
    await until('a batch', () => out.held.length === i + 1)
  }
  const offset = async () => {
    await run.checkpoints.flush()
    return (run.checkpoints.document as { files: { offset: number }[] }).files[0]!.offset
  }
  const [a, b, c, d, e] = out.held.splice(0)
  c!.ack.settle('delivered')
  t.equal(await offset(), 0)
  a!.ack.settle('rejected')
  t.equal(await offset(), 7)
  b!.ack.settle('delivered')
  t.equal(await offset(), 21)
  await run.stop()
  e!.ack.settle('errored')
  t.equal(await offset(), 21)
  d!.ack.settle('delivered')
  t.equal(await offset(), 28, 'what is given back at the end stays behind, what is delivered then counts')
  const next = await tail({ include: [path] }, run.checkpoints)
  await settled(next, 1)
  t.same(next.out.texts(), ['line 4'])
  await next.stop()
})

t.test('a batch that is given back ends the run, and is read again', async t => {
  const dir = testFolder(t, { 'a.log': '', 'b.log': '' })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [join(dir, '*.log')] }, new MemoryCheckpoints(), out)
  for (let i = 0; i < 3; i++) {
    appendFileSync(path, `line ${i}\n`)
    await until('a batch', () => out.held.length === i + 1)
  }
  appendFileSync(join(dir, 'b.log'), 'other\n')
  await until('a batch of the other file', () => out.held.length === 4)
  out.settle('delivered', 1)
  out.settle('errored', 1)
  await t.rejects(run.run, /was not delivered/)
  out.hold = false
  out.settle()
  const before = out.lines.length
  run.again().catch(() => {})
  await settled(run, before + 2)
  t.same(out.texts(path).slice(3), ['line 1', 'line 2'], 'from the mark on')
  t.same(out.texts(join(dir, 'b.log')), ['other'], 'the other file is not read again')
  appendFileSync(path, 'line 3\n')
  await settled(run, before + 3)
  await run.stop()
  const next = await tail({ include: [join(dir, '*.log')] }, run.checkpoints)
  await next.scanned()
  t.same(next.out.lines, [])
  await next.stop()
})

t.test('a batch of which only the last lines are given back is read again from there', async t => {
  const lines = Array.from({ length: 5000 }, (_, i) => `line ${i}`)
  const dir = testFolder(t, { 'a.log': `${lines.join('\n')}\n` })
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [join(dir, 'a.log')] }, new MemoryCheckpoints(), out)
  await until('the batch', () => out.held.length === 1)
  const [batch] = out.held.splice(0)
  batch!.ack.settle('errored', batch!.starts[4321]! - batch!.starts[0]!)
  await t.rejects(run.run, /was not delivered/)
  out.hold = false
  run.again().catch(() => {})
  await settled(run, 5000 + 679)
  t.same(out.texts().slice(5000), lines.slice(4321))
  await run.stop()
})

t.test('a part of a line that is given back is read again as a part', async t => {
  const dir = testFolder(t, { 'a.log': 'x'.repeat(1500) })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [path], max_line_bytes: 1024 }, new MemoryCheckpoints(), out)
  await until('the first piece', () => out.held.length === 1)
  appendFileSync(path, `${'y'.repeat(1500)}\n`)
  await until('the rest', () => out.held.length === 2)
  out.settle('delivered', 1)
  out.settle('errored', 1)
  await t.rejects(run.run)
  const before = out.lines.length
  run.again().catch(() => {})
  await until('the rest again', () => out.lines.length === before + 2)
  t.match(valuesOf(out.lines.slice(before), 'flags'), [CONTINUES | PIECE, CONTINUES | 1])
  await run.kill()
})

t.test('an end of the run leaves a batch that waits for room on its way, and reads nothing more', async t => {
  const dir = testFolder(t, { 'a.log': 'line of some length\n'.repeat(100_000) })
  const out = new Receiver()
  out.room = new Promise(() => {})
  const run = await tail({ include: [join(dir, 'a.log')] }, new MemoryCheckpoints(), out)
  await until('the first batch', () => out.batches === 1)
  await run.stop()
  t.equal(out.batches, 1)
  const [entry] = (run.checkpoints.document as { files: { offset: number }[] }).files
  t.equal(entry!.offset, out.bytes(join(dir, 'a.log')).length, 'what was settled is committed, no more')
})

t.test('a huge backlog does not keep other files from being read', async t => {
  const dir = testFolder(t, {
    'a-big.log': `${'x'.repeat(99)}\n`.repeat(80_000),
    'b.log': 'small\n',
    'c.log': 'small\n',
  })
  const run = await tail({ include: [join(dir, '*.log')], follow: false })
  await run.run
  const at = run.out.lines.findLastIndex(line => line.text === 'small')
  t.ok(at < 40_000, `after ${at} lines`)
  t.equal(run.out.lines.length, 80_002)
})

t.test('no more files are open than allowed, and none is forgotten', async t => {
  const names = Array.from({ length: 20 }, (_, i) => `f${i}.log`)
  const dir = testFolder(t, Object.fromEntries(names.map(name => [name, `${name} 0\n`])))
  const run = await tail({ include: [join(dir, '*.log')], max_open_files: 3, scan_interval: '50ms' })
  await settled(run, 20)
  t.ok(run.value('sluice_files_open')! <= 3)
  for (let round = 1; round < 4; round++) {
    for (const name of names) appendFileSync(join(dir, name), `${name} ${round}\n`)
    await settled(run, 20 * (round + 1))
    t.ok(run.value('sluice_files_open')! <= 3)
  }
  // Renamed out of the pattern while it is closed, with something unread: found by its inode.
  appendFileSync(join(dir, 'f0.log'), 'f0.log last\n')
  renameSync(join(dir, 'f0.log'), join(dir, 'f0.old'))
  await settled(run, 81)
  for (const name of names) {
    const expected = [0, 1, 2, 3].map(round => `${name} ${round}`)
    if (name === 'f0.log') expected.push('f0.log last')
    t.same(run.out.texts(join(dir, name)), expected)
  }
  await run.stop()
})

t.test(
  'a file that was deleted stays open until it is read to its end, however many others are to be opened',
  async t => {
    const dir = testFolder(t, { 'a.log': 'a 0\n', 'b.log': 'b 0\n' })
    const run = await tail({ include: [join(dir, '*.log')], max_open_files: 2, scan_interval: '10s' })
    await arrived(run, 2)
    let go = () => {}
    run.out.room = new Promise(resolve => {
      go = resolve
    })
    appendFileSync(join(dir, 'a.log'), 'a 1\n')
    await until('nothing more is read', () => run.out.batches === 3)
    appendFileSync(join(dir, 'b.log'), 'b 1\n')
    unlinkSync(join(dir, 'b.log'))
    writeFileSync(join(dir, 'c.log'), 'c 0\n')
    await until('the new file', () => run.value('sluice_files_watched') === 3)
    go()
    await arrived(run, 5)
    t.same(run.out.texts().sort(), ['a 0', 'a 1', 'b 0', 'b 1', 'c 0'])
    await run.stop()
  },
)

t.test('read_from: end skips what was there at the first start, and nothing later', async t => {
  const dir = testFolder(t, { 'a.log': 'old\nhal', 'b.log': '' })
  const options = { include: [join(dir, '*.log')], read_from: 'end' }
  const run = await tail(options)
  await until('the first sweep', () => run.value('sluice_files_watched') === 2)
  appendFileSync(join(dir, 'a.log'), 'f\nnew\n')
  appendFileSync(join(dir, 'b.log'), 'new too\n')
  writeFileSync(join(dir, 'c.log'), 'whole\n')
  await settled(run, 4)
  t.match(
    run.out.lines.filter(line => line.file.endsWith('a.log')),
    [
      { text: 'f', flags: CONTINUES | 1 },
      { text: 'new', flags: 1 },
    ],
  )
  t.same(run.out.texts(join(dir, 'c.log')), ['whole'])
  await run.stop()
  await laterFiles(dir)
  renameSync(join(dir, 'a.log'), join(dir, 'a.old'))
  writeFileSync(join(dir, 'a.log'), 'after rotation\n')
  writeFileSync(join(dir, 'd.log'), 'made while stopped\n')
  appendFileSync(join(dir, 'b.log'), 'appended while stopped\n')
  const next = await tail(options, run.checkpoints)
  await settled(next, 3)
  t.same(next.out.texts().sort(), ['after rotation', 'appended while stopped', 'made while stopped'])
  await next.stop()
  const fresh = await tail(options)
  await fresh.scanned()
  t.same(fresh.out.lines, [], 'nothing of what was there')
  await fresh.kill()
})

t.test('read_from: end reads all of a file that was made between the end of a run and the last save', async t => {
  const dir = testFolder(t, { 'a.log': 'old\n' })
  const options = { include: [join(dir, '*.log')], read_from: 'end' }
  const run = await tail(options)
  await until('the first sweep', () => run.value('sluice_files_watched') === 1)
  await run.kill()
  await laterFiles(dir)
  writeFileSync(join(dir, 'b.log'), 'one\ntwo\n')
  await laterFiles(dir)
  await run.checkpoints.flush()
  const next = await tail(options, run.checkpoints)
  await settled(next, 2)
  t.same(next.out.texts(), ['one', 'two'])
  await next.stop()
})

t.test('the position of a file that is missing has the date of that, so that it is forgotten some day', async t => {
  const dir = testFolder(t, { 'a.log': 'one\n', 'b.log': 'two\n' })
  const first = await tail({ include: [join(dir, '*.log')] })
  await settled(first, 2)
  await first.stop()
  unlinkSync(join(dir, 'b.log'))
  const second = await tail({ include: [join(dir, '*.log')] }, first.checkpoints)
  await second.scanned()
  await second.stop()
  const { files } = second.checkpoints.document as { files: { path: string; away?: number }[] }
  t.same(files.map(({ path, away }) => [basename(path), typeof away]).sort(), [
    ['a.log', 'undefined'],
    ['b.log', 'number'],
  ])
})

t.test('lost positions mean reading from the beginning, and are told', async t => {
  const dir = testFolder(t, { 'a.log': 'one\ntwo\n' })
  for (const document of [null, 'nonsense', { version: 1, saved: 1, files: [{ path: 1 }] }]) {
    const checkpoints = new MemoryCheckpoints()
    checkpoints.document = document
    const run = await tail({ include: [join(dir, 'a.log')], follow: false, read_from: 'end' }, checkpoints)
    await run.run
    t.same(run.out.texts(), ['one', 'two'])
    t.equal(run.counters.failures.get('checkpoint'), 1)
    t.equal(run.log.filter(({ msg }) => /are invalid/.test(msg)).length, 1)
  }
})

t.test('what cannot be read is told once, counted, and tried again', async t => {
  const dir = testFolder(t, { 'good.log': 'good\n', 'loop.log': t.fixture('symlink', 'loop.log') })
  const run = await tail({ include: [join(dir, '*.log'), dir, '/dev/null'], scan_interval: '20ms' })
  await until('several attempts', () => (run.counters.failures.get('open') ?? 0) >= 3)
  const told = () => run.log.filter(({ msg }) => /cannot read file/.test(msg))
  t.match(told(), [{ file: join(dir, 'loop.log'), cause: 'ELOOP', level: 50 }])
  const skipped = run.log.filter(({ msg }) => /not a regular file/.test(msg))
  t.same(skipped.map(one => one.file).sort(), ['/dev/null', dir].sort())
  renameSync(join(dir, 'good.log'), join(dir, 'loop.log'))
  appendFileSync(join(dir, 'loop.log'), 'now\n')
  await settled(run, 2)
  t.equal(told().length, 1)
  await run.stop()
})

/** Makes the file at `path` one that this user may not open, under any name, until `unlock`. */
function lock(t: Test, path: string): { unlock: () => void } {
  const { ino } = fs.statSync(path)
  const { openSync } = fs
  let isLocked = true
  fs.openSync = ((path, ...more) => {
    if (isLocked && fs.statSync(path, { throwIfNoEntry: false })?.ino === ino)
      throw Object.assign(new Error(`EACCES: permission denied, open '${path}'`), { code: 'EACCES' })
    return openSync(path, ...more)
  }) as typeof openSync
  t.teardown(() => {
    fs.openSync = openSync
  })
  return {
    unlock: () => {
      isLocked = false
    },
  }
}

t.test('a file, or a folder, whose name is not valid UTF-8 is told as unreadable', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const named = (name: string) => Buffer.concat([Buffer.from(`${dir}/`), Buffer.from(name, 'latin1')])
  writeFileSync(named('bad\xff.log'), '2\n')
  mkdirSync(named('d\xfe'))
  writeFileSync(named('d\xfe/in.log'), '3\n')
  const run = await tail({ include: [join(dir, '*.log'), join(dir, 'd*/*.log')] })
  await settled(run, 1)
  t.equal(run.value('sluice_files_unreadable'), 2)
  const told = run.log.filter(({ code }) => code === 'SLUICE_FILE_UNREADABLE')
  t.same(told.map(({ file }) => file).sort(), [join(dir, 'bad\ufffd.log'), join(dir, 'd\ufffd')])
  for (const { cause } of told) t.match(cause, /is not valid UTF-8; rename it/)
  renameSync(named('bad\xff.log'), join(dir, 'good.log'))
  renameSync(named('d\xfe'), join(dir, 'dir'))
  await settled(run, 3)
  await until('nothing is unreadable', () => run.value('sluice_files_unreadable') === 0)
  await run.stop()
})

for (const [title, isStopped] of [
  ['by the same run', false],
  ['by the next run', true],
] as const) {
  t.test(`a file that cannot be opened and is rotated is told until it can be, and read then: ${title}`, async t => {
    const dir = testFolder(t, { 'app.log': '1\n2\n' })
    const path = join(dir, 'app.log')
    const { unlock } = lock(t, path)
    const run = await tail({ include: [path] })
    await until('several attempts', () => (run.counters.failures.get('open') ?? 0) >= 3)
    renameSync(path, `${path}.1`)
    writeFileSync(path, '3\n')
    await settled(run, 1)
    // More scans than a problem is remembered for.
    await run.scanned(15)
    t.equal(run.value('sluice_files_unreadable'), 1)
    const told = run.log.filter(({ code }) => code === 'SLUICE_FILE_UNREADABLE').map(({ file }) => file)
    t.same(told, [path, `${path}.1`])
    if (isStopped) await run.stop()
    unlock()
    const next = isStopped ? await tail({ include: [path] }, run.checkpoints, run.out) : run
    await settled(next, 3)
    t.same(next.out.texts(path), ['3', '1', '2'])
    t.equal(next.value('sluice_files_unreadable'), 0)
    await next.stop()
  })
}

t.test('a file that an editor replaced is read again, and the log says so', async t => {
  const dir = testFolder(t, { 'app.log': '1\n2\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path] })
  await settled(run, 2)
  writeFileSync(join(dir, 'new'), '1\n2\n3\n')
  renameSync(join(dir, 'new'), path)
  await settled(run, 5)
  t.same(run.out.texts(), ['1', '2', '1', '2', '3'])
  const told = run.log.filter(({ msg }) =>
    /replaced \(editors do this\) by a new file that begins with the same/.test(msg),
  )
  t.match(told, [{ file: path, level: 40, read_bytes: 4 }])
  await run.stop()
})

for (const isStopped of [false, true]) {
  const title = isStopped ? 'by the next run' : 'by the same run'
  t.test(
    `a file that was rotated unseen and cannot be opened is told until it can be, and read then: ${title}`,
    async t => {
      const dir = testFolder(t, { 'app.log': '1\n' })
      const path = join(dir, 'app.log')
      const run = await tail({ include: [path] })
      await settled(run, 1)
      renameSync(path, `${path}.2`)
      writeFileSync(path, '2\n')
      renameSync(path, `${path}.1`)
      const { unlock } = lock(t, `${path}.1`)
      writeFileSync(path, '3\n')
      await settled(run, 2)
      await until('it is told', () => run.value('sluice_files_unreadable') === 1)
      // More scans than a problem is remembered for.
      await run.scanned(15)
      t.equal(run.value('sluice_files_unreadable'), 1)
      if (isStopped) await run.stop()
      unlock()
      const next = isStopped ? await tail({ include: [path] }, run.checkpoints, run.out) : run
      await settled(next, 3)
      t.same(next.out.texts(path), ['1', '3', '2'])
      t.equal(next.value('sluice_files_unreadable'), 0)
      await next.stop()
    },
  )
}

t.test(
  'a file that was renamed while nothing ran, and cannot be opened at the start, is read when it can be',
  async t => {
    const dir = testFolder(t, { 'app.log': '1\n' })
    const path = join(dir, 'app.log')
    const first = await tail({ include: [path] })
    await settled(first, 1)
    await first.stop()
    appendFileSync(path, '2\n')
    renameSync(path, `${path}.1`)
    writeFileSync(path, '3\n')
    const { unlock } = lock(t, `${path}.1`)
    const run = await tail({ include: [path] }, first.checkpoints)
    await settled(run, 1)
    await run.scanned(15)
    t.equal(run.value('sluice_files_unreadable'), 1)
    unlock()
    await settled(run, 2)
    t.same(run.out.texts(path), ['3', '2'])
    await run.stop()
  },
)

for (const [title, isCompressed, isLocked, isRead] of [
  ['compressed copy with the rest of a file cannot be opened, and can be later', true, true, true],
  ['compressed copy with the rest of a file cannot be opened, and is deleted', true, true, false],
  ['compressed copy with the rest of a file is damaged, and restored later', true, false, true],
  ['compressed copy with the rest of a file is damaged, and deleted', true, false, false],
  ['plain copy with the rest of a file cannot be opened, and can be later', false, true, true],
  ['plain copy with the rest of a file cannot be opened, and is deleted', false, true, false],
] as const) {
  t.test(`the ${title}`, async t => {
    const dir = testFolder(t, { 'app.log': '1\n' })
    const [path, copy] = [join(dir, 'app.log'), join(dir, isCompressed ? 'app.log.1.gz' : 'app.log.1')]
    const first = await tail({ include: [path] })
    await settled(first, 1)
    first.out.hold = true
    fs.appendFileSync(path, '2\n')
    await arrived(first, 2)
    await first.stop()
    const whole = isCompressed ? gzipSync(fs.readFileSync(path)) : fs.readFileSync(path)
    writeFileSync(copy, isLocked ? whole : 'this is no file that gzip made')
    // Like the copy that `cp -p` makes of a file that was written an hour ago.
    const hourAgo = new Date(Date.now() - 3_600_000)
    if (!isCompressed) fs.utimesSync(copy, hourAgo, hourAgo)
    const { unlock } = isLocked ? lock(t, copy) : { unlock: () => writeFileSync(copy, whole) }
    rmSync(path)
    writeFileSync(path, '3\n')
    const run = await tail({ include: [path] }, first.checkpoints)
    await until('it is told', () => run.value('sluice_files_unreadable') === 1)
    await settled(run, 1)
    // More scans than a problem is remembered for.
    await run.scanned(15)
    t.equal(run.value('sluice_files_unreadable'), 1)
    t.same(
      run.log.filter(one => one.code).map(({ code, file }) => [code, file]),
      [[isCompressed ? 'SLUICE_COPY_DAMAGED' : 'SLUICE_FILE_UNREADABLE', copy]],
    )
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0, 'it may be read yet')
    if (isRead) unlock()
    else rmSync(copy)
    if (isRead) await settled(run, 2)
    else await until('it is lost', () => run.value('sluice_file_lost_bytes_total') === 2)
    await until('nothing is wrong', () => run.value('sluice_files_unreadable') === 0)
    t.same(run.out.texts(path), isRead ? ['3', '2'] : ['3'])
    await run.stop()
  })
}

for (const [title, isStopped, isCompressed] of [
  ['while it runs', false, false],
  ['while nothing runs', true, false],
  ['and left compressed while it runs', false, true],
  ['and left compressed while nothing runs', true, true],
] as const) {
  t.test(`a file that never could be opened and is deleted ${title} is not passed over`, async t => {
    const dir = testFolder(t, { 'app.log': '1\n', 'old.log.1.gz': gzipSync('of another file') })
    const path = join(dir, 'app.log')
    lock(t, path)
    const run = await tail({ include: [path] })
    await until('it is told', () => run.value('sluice_files_unreadable') === 1)
    appendFileSync(path, '2\n')
    await run.scanned(2)
    if (isStopped) await run.stop()
    if (isCompressed) writeFileSync(`${path}.1.gz`, gzipSync('1\n2\n'))
    rmSync(path)
    const next = isStopped ? await tail({ include: [path] }, run.checkpoints, run.out) : run
    if (isCompressed) await settled(next, 2)
    else await until('it is told as lost', () => next.value('sluice_file_lost_bytes_total') === 4)
    await until('nothing is unreadable', () => next.value('sluice_files_unreadable') === 0)
    await next.scanned(5)
    t.same(next.out.texts(path), isCompressed ? ['1', '2'] : [])
    t.equal(next.value('sluice_file_lost_bytes_total') ?? 0, isCompressed ? 0 : 4)
    t.equal(next.value('sluice_file_lost_bytes', { file: path }), isCompressed ? undefined : 4)
    const at = next.value('sluice_file_lost_timestamp_seconds', { file: path })
    t.equal(at !== undefined && Math.abs(Date.now() / 1000 - at) < 600, !isCompressed)
    const lost = next.log.filter(({ code }) => code === 'SLUICE_FILE_VANISHED')
    t.same(valuesOf(lost, 'file'), isCompressed ? [] : [path])
    await next.stop()
  })
}

t.test('a file that was closed, and whose compressed copy cannot be opened, is not lost before it can be', async t => {
  const dir = testFolder(t, { 'a.log': 'a\n', 'b.log': 'b\n' })
  const [a, b] = [join(dir, 'a.log'), join(dir, 'b.log')]
  const run = await tail({ include: [join(dir, '*.log')], max_open_files: 1, rotate_wait: '100ms' })
  await settled(run, 2)
  appendFileSync(b, 'b\n')
  await until('the other is closed', () => run.value('sluice_files_open') === 1 && run.out.texts(b).length === 2)
  // Its last size is known, and its rest is not.
  run.out.hold = true
  appendFileSync(a, 'rest\n')
  await arrived(run, 4)
  run.out.settle('errored')
  await run.run.catch(() => {})
  writeFileSync(`${a}.1.gz`, gzipSync(readFileSync(a)))
  rmSync(a)
  const { unlock } = lock(t, `${a}.1.gz`)
  run.out.hold = false
  run.again().catch(() => {})
  await until('it is told', () => run.value('sluice_files_unreadable') === 1)
  await until('it is let go', () => run.value('sluice_files_watched') === 1)
  await run.scanned(15)
  t.equal(run.value('sluice_files_unreadable'), 1)
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  unlock()
  await until('the rest is read', () => run.out.texts(a).filter(text => text === 'rest').length === 2)
  await until('nothing is wrong', () => run.value('sluice_files_unreadable') === 0)
  await run.stop()
})

t.test('without a file to read, it says so once, unless that is an error of its own', async t => {
  const dir = testFolder(t, { 'a.log': 'a\n', 'b.gz': gzipSync('b\n') })
  symlinkSync('loop.log', join(dir, 'loop.log'))
  const said = async (...names: string[]) => {
    const run = await tail({ include: names.map(name => join(dir, name)), follow: false })
    await run.run
    return run.log.filter(({ msg }) => /any file to read/.test(msg))
  }
  const msg = 'did not find any file to read'
  const told = await said('none.log')
  t.match(told, [{ level: 40, include: [join(dir, 'none.log')], msg }])
  t.equal(told[0]!.msg, msg, 'nothing is read later')
  t.equal((await said('*.gz')).length, 1, 'compressed files are not read')
  t.same(await said('none.log', 'a.log'), [])
  t.same(await said('loop.log'), [], 'it cannot be read, which is logged')
})

t.test('a name that is a FIFO is never opened', async t => {
  const { execFileSync } = await import('node:child_process')
  const dir = testFolder(t, { 'a.log': 'a\n' })
  execFileSync('mkfifo', [join(dir, 'b.log')])
  const run = await tail({ include: [join(dir, '*.log')], follow: false })
  await run.run
  t.same(run.out.texts(), ['a'])
  t.match(
    run.log.filter(({ level }) => level === 40),
    [{ file: join(dir, 'b.log'), msg: /not a regular file/ }],
  )
})

t.test('options', async t => {
  t.throws(() => fileSource.options.parse({ include: [] }))
  t.throws(() => fileSource.options.parse({ include: ['a'], read_from: 'middle' }))
  t.throws(() => fileSource.options.parse({ include: ['a'], unknown: 1 }))
  const parsed = fileSource.options.parse({ include: ['a'] })
  t.same(await (await fileSource.checks!()).warnings!({ ...parsed, include: [] }, []), [])
  t.match(parsed, {
    max_line_bytes: 1 << 20,
    partial_line_timeout: undefined,
    decode: { definition: { name: 'text' } },
    read_from: 'beginning',
  })
})

t.test('a file that grows while it is read is read to its present end', async t => {
  const dir = testFolder(t, { 'a.log': '' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path] })
  const fd = openSync(path, 'a')
  let written = 0
  const end = performance.now() + 300
  while (performance.now() < end) {
    for (let i = 0; i < 200; i++) writeSync(fd, `line ${written++} ${'x'.repeat(written % 500)}\n`)
    await nextTurn()
  }
  closeSync(fd)
  await settled(run, written)
  t.ok(run.out.bytes(path).equals(readFileSync(path)))
  t.equal(run.value('sluice_file_truncations_total'), 0)
  await run.stop()
})

t.test('a sweep during which the machine served others does not put off the next ones', async t => {
  const dir = testFolder(t, { 'app.log': 'first\n' })
  const path = join(dir, 'app.log')
  let [lateMs, isLate] = [0, false]
  const clock = {
    now: () => systemClock.now() + lateMs,
    // Each sweep asks for it.
    wall: () => {
      if (isLate) lateMs += 60_000
      isLate = false
      return systemClock.wall()
    },
    after: systemClock.after,
  }
  const options = { include: [path], scan_interval: '20ms', rotate_wait: '50ms' }
  const run = await tail(options, undefined, undefined, clock)
  await settled(run, 1)
  isLate = true
  await until('the sweep', () => lateMs > 0)
  unlinkSync(path)
  await until('another sweep lets go of the file', () => run.value('sluice_files_watched') === 0)
  await run.stop()
})

t.test('a file that turns out to be an output of the daemon after it was found is not read', async t => {
  const dir = testFolder(t, { 'a.log': 'one\n', 'out.log': '' })
  let hasWriter = false
  const { ino } = statSync(join(dir, 'out.log'), { bigint: true })
  const isOwnOutput = (key: string) => hasWriter && key.endsWith(`:${ino}`)
  // No scan finds out before it is read.
  const options = { include: [join(dir, '*.log')], scan_interval: '1h' }
  const run = await tail(options, undefined, undefined, undefined, undefined, undefined, isOwnOutput)
  await arrived(run, 1)
  hasWriter = true
  appendFileSync(join(dir, 'out.log'), 'own\n')
  appendFileSync(join(dir, 'a.log'), 'two\n')
  await arrived(run, 2)
  appendFileSync(join(dir, 'a.log'), 'three\n')
  await arrived(run, 3)
  t.same(run.out.texts(), ['one', 'two', 'three'])
  await run.stop()
})
