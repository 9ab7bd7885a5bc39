import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import picomatch from 'picomatch'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { KnownBeginnings } from '../../../../src/components/file/beginnings.js'
import { Descriptors } from '../../../../src/components/file/descriptors.js'
import {
  compileExclude,
  compileGlobs,
  expandBraces,
  globFault,
  matchPath,
} from '../../../../src/components/file/discovery/glob.js'
import type { Remote } from '../../../../src/components/file/discovery/remote.js'
import { Watches } from '../../../../src/components/file/discovery/watches.js'
import {
  FINGERPRINT_BYTES,
  fingerprint,
  fingerprintAt,
  judge,
  keyOf,
  NO_BYTES,
} from '../../../../src/components/file/identity.js'
import type { PathProblems } from '../../../../src/components/file/path-problems.js'
import { beginningOf, emptyStart, positionsIn, resumeOf } from '../../../../src/components/file/positions.js'
import { Portion } from '../../../../src/components/file/reading/portion.js'
import { Reader, type ReaderOptions } from '../../../../src/components/file/reading/reader.js'
import type { TailerContext } from '../../../../src/components/file/reading/tailer.js'
import { Tailer } from '../../../../src/components/file/reading/tailer.js'
import type { Listed } from '../../../../src/components/file/rotation/owners.js'
import { ofTailer } from '../../../../src/components/file/rotation/subjects.js'
import { Trail } from '../../../../src/components/file/rotation/trail.js'
import { type Entry, isCopyAhead, Saved, wasCopyAhead } from '../../../../src/components/file/saved.js'
import { fileSource } from '../../../../src/components/file/source.js'
import type { Output } from '../../../../src/core/component.js'
import { EventBatch } from '../../../../src/core/event/batch.js'
import type { Origin } from '../../../../src/core/event/origin.js'
import { Splitting } from '../../../../src/core/options/multiline-options.js'
import { LowWaterMark } from '../../../../src/engine/flow/low-water-mark.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { isInChunkMemory } from '../../../../src/lib/lines/chunk-memory.js'
import { type Frame, LineSplitter } from '../../../../src/lib/lines/line-splitter.js'
import { systemClock } from '../../../../src/lib/time.js'
import { TimeSlices } from '../../../../src/lib/time-slices.js'
import { casesOf } from '../../../support/cases.js'
import { testFolder } from '../../../support/folder.js'
import { ManualTime } from '../../../support/manual-time.js'
import { Receiver } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

t.test('braces', async t => {
  const cases: [string, string[]][] = casesOf(import.meta.url, 'braces')
  for (const [pattern, expected] of cases) t.same(expandBraces(pattern), expected, pattern)
  t.same(expandBraces('{a,b}\\\\\\.\\*'), ['a\\\\\\.\\*', 'b\\\\\\.\\*'], 'backslashes stay')
  t.throws(() => expandBraces('{1..100000}'), /too many/)
  t.throws(() => expandBraces('{1..99}{1..99}'), /too many/)
})

t.test('patterns', async t => {
  const cases: [string, string, 'whole' | 'prefix' | 'no'][] = casesOf(import.meta.url, 'patterns')
  for (const [pattern, path, expected] of cases) {
    const results = compileGlobs([pattern]).map(segments => matchPath(path, segments))
    const result = results.find(one => one === 'whole') ?? results.find(one => one === 'prefix') ?? 'no'
    t.equal(result, expected, `${pattern} ${path}`)
  }
  t.equal(matchPath(join(process.cwd(), 'a.log'), compileGlobs(['*.log'])[0]!), 'whole', 'relative to the work folder')
})

t.test('exclude', async t => {
  const excluded = compileExclude(['*.gz', '/var/log/no/**', '**/tmp/*', '{a,b}.old'])
  const test = (path: string) => excluded(path, path.slice(path.lastIndexOf('/') + 1))
  for (const path of ['/x/a.gz', '/x/.a.gz', '/var/log/no/a/b', '/x/y/tmp/z', '/x/b.old']) t.ok(test(path), path)
  for (const path of ['/x/a.gz.log', '/var/log/not/a', '/x/tmp/y/z', '/x/c.old']) t.notOk(test(path), path)
})

t.test('patterns that make a backtracking matcher take minutes', async t => {
  const name = `${'a'.repeat(250)}.log`
  const evil = ['+(a|aa)+(a|aa)x', '*a*a*a*a*a*a*a*a*a*a*x', '+(*a)x', '!(+(a|aa))x', '**/+(a|a)/*a*a*a*a*a*a*x']
  const { user } = process.cpuUsage()
  for (const pattern of evil) {
    t.notOk(compileExclude([pattern])(`/var/log/${name}`, name), pattern)
    t.not(matchPath(`/var/log/${name}`, compileGlobs([`/var/log/${pattern}`])[0]!), 'whole', pattern)
  }
  t.ok(process.cpuUsage().user - user < 2_000_000)
  t.equal(globFault(['/var/log/*.log', '+(a|aa)x']), undefined)
  t.match(globFault(['(a)\\1']), /^the file pattern \(a\)\\1 cannot be used: .*back-reference/)
})

t.test('a pattern with many ** is matched in bounded time', async t => {
  const [segments] = compileGlobs([`/${'**/a/'.repeat(9)}b`])
  const path = '/a'.repeat(40)
  const { user } = process.cpuUsage()
  t.equal(matchPath(path, segments!), 'prefix')
  t.equal(matchPath(`${path}/b`, segments!), 'whole')
  t.ok(process.cpuUsage().user - user < 2_000_000, 'an exponential search takes half a minute')
})

t.test('patterns mean what they mean to picomatch', async t => {
  const options = { posix: true, nonegate: true, dot: true }
  const patterns = '*.gz ?.log [a-c]* [!a]* *.{gz,old} @(a|b).log !(a).log +(ab).log a?(b).log'.split(' ')
  patterns.push('/x/**/a.log', '**/tmp/**', '/x/*/a*', 'a\\*b', '.*', '*[[:digit:]]*', '/x/!(y)/*')
  const paths = '/x/a.log /x/y/a.log /x/y/z/a.log /x/b.gz /x/c.old /x/ab.log /x/abab.log /x/.a.log'.split(' ')
  paths.push('/x/tmp/a', '/tmp/x/y', '/x/a*b', '/x/é', '/x/a1', '/x/😀.log')
  for (const pattern of patterns) {
    const [excluded, usual] = [compileExclude([pattern]), picomatch(pattern, options)]
    for (const path of paths) {
      const name = path.slice(path.lastIndexOf('/') + 1)
      const expected = pattern.includes('/') ? usual(path) : usual(name)
      if (excluded(path, name) !== expected) t.fail(`${pattern} of ${path}`)
    }
  }
})

t.test('is it the same file', async t => {
  const dir = testFolder(t)
  const path = join(dir, 'a')
  const content = Array.from({ length: 400 }, (_, i) => `line ${i}\n`).join('')
  writeFileSync(path, content)
  const born = statSync(path, { bigint: true })
  const remember = (offset: number) => {
    const fd = openSync(path, 'r')
    const head = fingerprintAt(fd, 0, Math.min(1024, offset))
    const tail = fingerprintAt(fd, Math.max(0, offset - 1024), offset)
    closeSync(fd)
    return { birth: born.birthtimeNs, offset, head, tail }
  }
  const [none, small, all] = [{ ...remember(0), head: remember(10).head }, remember(10), remember(content.length)]
  const check = (text: string, remembered: typeof all) => {
    writeFileSync(path, text)
    const fd = openSync(path, 'r')
    const verdict = judge(fd, statSync(path, { bigint: true }), remembered)
    closeSync(fd)
    return verdict
  }
  const cases: [string, string, typeof all, string][] = [
    ['grown', `${content}more\n`, all, 'same'],
    ['as it was', content, all, 'same'],
    ['shorter', content.slice(0, -1), all, 'truncated'],
    ['empty', '', all, 'truncated'],
    ['another head', `X${content.slice(1)}`, all, 'truncated'],
    ['another end, the same head', `${content.slice(0, -3)}Xxx`, all, 'truncated'],
    ['another middle', content.replace('line 200', 'line 2oo'), all, 'same'],
    ['small, grown', content, small, 'same'],
    ['small, another', 'LINE 0\nline 1\n', small, 'truncated'],
    ['nothing delivered yet', content, none, 'same'],
    ['nothing delivered yet, another', 'other content', none, 'replaced'],
    ['nothing known', 'other content', { ...none, head: NO_BYTES }, 'same'],
    ['nothing known but its size, shorter', 'other', { ...all, head: NO_BYTES, tail: NO_BYTES }, 'truncated'],
  ]
  for (const [what, text, remembered, expected] of cases) t.equal(check(text, remembered), expected, what)
  t.equal(check(content, { ...all, birth: 1n }), 'replaced')
  t.equal(check(content, { ...all, birth: 0n }), 'same')
  t.equal(check(content, all), 'same')
})

t.test('positions', async t => {
  const at = (offset: number) => ({ ...emptyStart(), offset })
  let commits = 0
  const positions = new LowWaterMark(at(0), () => commits++)
  const [a, b, c] = [positions.add(at(1)), positions.add(at(2)), positions.add(at(3))]
  t.ok(positions.unsettled)
  b()
  t.equal(positions.mark.offset, 0)
  a()
  t.equal(positions.mark.offset, 2)
  const d = positions.add(at(4))
  d()
  t.equal(positions.mark.offset, 2)
  c()
  t.equal(positions.mark.offset, 4)
  t.notOk(positions.unsettled)
  positions.add(at(5))()
  t.equal(positions.mark.offset, 5)
  t.equal(commits, 3)
})

t.test('watches that the system refuses', async t => {
  const dir = testFolder(t, { a: {}, b: {}, far: {} })
  const time = new ManualTime()
  const log: { msg: string; cause?: string }[] = []
  const logger = pino({}, { write: line => log.push(JSON.parse(line)) })
  let refuse = true
  let asked = 0
  const hints: string[] = []
  const watches = new Watches(
    logger,
    time,
    (folder, type, name) => hints.push(`${folder} ${type} ${name}`),
    folder => folder === join(dir, 'far'),
    ((...args: Parameters<typeof watch>) => {
      asked++
      if (refuse) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
      return watch(...args)
    }) as typeof watch,
  )
  const folders = [join(dir, 'a'), join(dir, 'b'), join(dir, 'c', 'd')]
  for (let i = 0; i < 3; i++) t.equal(await watches.sync(folders, new TimeSlices(time)), false)
  t.equal(asked, 1, 'it is not asked again and again')
  t.equal(watches.areComplete, false)
  t.match(log, [{ cause: 'ENOSPC', msg: /cannot watch/ }])
  await time.advance(60_000)
  refuse = false
  t.equal(await watches.sync(folders, new TimeSlices(time)), true)
  t.equal(asked, 4, 'both, and the folder above the missing one')
  t.equal(watches.areComplete, true)
  t.equal(await watches.sync(folders, new TimeSlices(time)), false)
  writeFileSync(join(dir, 'a', 'x'), '')
  await until('a hint', () => hints.includes(`${join(dir, 'a')} rename x`))
  mkdirSync(join(dir, 'c'))
  await until('a hint', () => hints.includes(`${dir} rename c`))
  t.equal(await watches.sync(folders, new TimeSlices(time)), true)
  rmSync(join(dir, 'a'), { recursive: true })
  mkdirSync(join(dir, 'a'))
  t.equal(await watches.sync(folders, new TimeSlices(time)), true, 'another folder under the same name')
  t.equal(watches.areComplete, true)
  t.equal(await watches.sync([...folders, join(dir, 'far')], new TimeSlices(time)), false, 'none on another machine')
  t.equal(watches.areComplete, false, 'changes by other machines are not reported')
  watches.close()
  t.equal(log.length, 1)
})

t.test('a folder that goes before it is watched: the one above it is watched by the next sweep, at once', async t => {
  const dir = testFolder(t, { a: {} })
  const folder = join(dir, 'a')
  const time = new ManualTime()
  const hints: string[] = []
  const watches = new Watches(
    pino({ level: 'silent' }),
    time,
    (_, type, name) => hints.push(`${type} ${name}`),
    () => false,
    ((path: string, ...more: [object, () => void]) => {
      if (path === folder) rmSync(folder, { recursive: true, force: true })
      return watch(path, ...more)
    }) as typeof watch,
  )
  t.equal(await watches.sync([folder], new TimeSlices(time)), true, 'what happened meanwhile was not reported')
  t.equal(watches.areComplete, false)
  t.equal(await watches.sync([folder], new TimeSlices(time)), true)
  t.equal(watches.areComplete, true)
  mkdirSync(folder)
  await until('a hint', () => hints.includes('rename a'))
  watches.close()
})

function entry(ino: number | bigint, path: string, more: Partial<Entry> = {}): Entry {
  return {
    path,
    dev: '1',
    ino: String(ino),
    birth: '0',
    offset: 10,
    continues: false,
    head: { bytes: 10, hash: 1 },
    tail: { bytes: 10, hash: 1 },
    ...more,
  }
}

t.test('saved positions', async t => {
  const document = { version: 1, saved: 5, files: [entry(1, '/a/x'), entry(2, '/a/y'), entry(3, '/b/z'), { path: 1 }] }
  const saved = new Saved(document)
  t.equal(saved.savedAt, 5)
  t.equal(saved.unreadable, 1)
  const folders = saved.byFolder()
  t.same(Array.from(folders.folders, folder => [folder, [...folders.in(folder)].length]).sort(), [
    ['/a', 2],
    ['/b', 1],
  ])
  const found = [saved.find(1n, 1n, '/elsewhere')!, saved.find(9n, 2n, '/a/y')!]
  t.match(found, [{ path: '/a/x' }, { path: '/a/y' }], 'the device has another number after a restart')
  t.equal(saved.find(9n, 3n, '/b/other'), undefined)
  for (const one of found) saved.remove(one)
  t.ok(saved.has('/b/z'))
  saved.prune(1000)
  t.match([...saved.entries()], [{ path: '/b/z', away: 1000 }])
  saved.prune(1000 + 6 * 24 * 3_600_000)
  t.equal([...saved.entries()].length, 1)
  saved.prune(1001 + 7 * 24 * 3_600_000)
  t.equal([...saved.entries()].length, 0)
  for (let i = 0; i < 10_010; i++) saved.put(entry(i, `/many/${i}`, { away: i }))
  saved.prune(20_000)
  t.equal([...saved.entries()].length, 10_000)
  t.notOk(saved.has('/many/9'), 'the oldest go')
  t.ok(saved.has('/many/10'))
  saved.prune(20_000, ({ path }) => /\d\d\d\d$/.test(path))
  t.equal([...saved.entries()].length, 10_000, 'positions that are kept do not count')
  t.equal(new Saved(undefined).unreadable, 0)
  const files = [entry(1, '/a/x', { birth: '1', offset: 10 }), entry(1, '/a/x', { birth: '2', offset: 20 })]
  const both = new Saved({ version: 1, saved: 5, files })
  t.match([...both.entries()], [{ offset: 10, gone: true }, { offset: 20 }], 'the inode was given to another file')
  both.prune(1000)
  t.equal([...both.entries()].length, 2)
  const head = (hash: number, bytes = 10) => ({ head: { bytes, hash } })
  const other = new Saved({ version: 1, saved: 5, files: [entry(1, '/a/x', head(1)), entry(1, '/a/y', head(2))] })
  t.match([...other.entries()], [{ path: '/a/x', gone: true }, { path: '/a/y' }], 'the same, without birth times')
  const grown = new Saved({ version: 1, saved: 5, files: [entry(1, '/a/x', head(1)), entry(1, '/a/x', head(2, 20))] })
  t.match([...grown.entries()], [head(2, 20)], 'its first bytes became more')
  grown.put(entry(1, '/a/z', { ...head(3, 30), offset: 0 }))
  t.equal([...grown.entries()].length, 2, 'another file whose first bytes are more')
  const copy = entry(4, '/a/x.1', { claimed: '1:9', offset: 20, ...head(1, 20) })
  const original = entry(5, '/a/x', { claimed: '1:9', ...head(1) })
  t.ok(isCopyAhead(copy, original), 'files grow')
  t.notOk(isCopyAhead({ ...copy, claimed: '1:8' }, original))
  t.ok(isCopyAhead({ ...copy, ...head(1), claimed: '1:8' }, original), 'it was found compressed')
  t.notOk(wasCopyAhead(copy, original), 'a copy that is compressed begins with the same bytes')
  t.ok(wasCopyAhead({ ...copy, ...head(1) }, original))
  const short = { ...copy, head: { bytes: 310, hash: 3 } }
  t.notOk(wasCopyAhead(short, original))
  t.ok(wasCopyAhead(short, { ...original, marks: [{ offset: 310, tail: short.head }] }), 'it lacks some bytes')
})

t.test('an inode above 2^63, which is a negative number, is read from a document', async t => {
  const saved = new Saved({ version: 1, saved: 5, files: [entry(-5n, '/a/x')] })
  t.equal(saved.unreadable, 0)
  t.equal(saved.find(1n, -5n, '/elsewhere')?.path, '/a/x')
})

const DAY_MS = 24 * 3_600_000

t.test('an entry that is kept counts as missing since it was last kept, to about a day', async t => {
  const saved = new Saved({ version: 1, saved: 5, files: [entry(1, '/a/x', { away: 0 })] })
  const away = () => [...saved.entries()].map(one => one.away)
  let isKept = true
  const prune = (now: number) => saved.prune(now, () => isKept)
  prune(DAY_MS)
  t.same(away(), [0])
  prune(20 * DAY_MS)
  t.same(away(), [20 * DAY_MS])
  isKept = false
  prune(27 * DAY_MS)
  t.same(away(), [20 * DAY_MS])
  prune(27 * DAY_MS + 1)
  t.same(away(), [])
})

t.test('no entry is removed for its age within a day after the start', async t => {
  const saved = new Saved({ version: 1, saved: 5, files: [entry(1, '/a/x', { away: 0 })] })
  for (const now of [30 * DAY_MS, 31 * DAY_MS]) {
    saved.prune(now)
    t.ok(saved.has('/a/x'))
  }
  saved.prune(31 * DAY_MS + 1)
  t.notOk(saved.has('/a/x'))
})

t.test('only entries that were missing before count for the limit', async t => {
  const saved = new Saved(undefined)
  for (let i = 0; i < 10_010; i++) saved.put(entry(i, `/many/${i}`))
  for (const left of [10_010, 10_000]) {
    saved.prune(left === 10_000 ? 2000 : 1000)
    t.equal([...saved.entries()].length, left)
  }
})

t.test('of the ends of copies only the last 32 are kept as marks', async t => {
  const bytes = Buffer.alloc(100, 'x')
  const tailAt = (offset: number) => fingerprint(bytes, 0, offset)
  const [read, expected] = [new Trail(), new Trail()]
  for (let end = 1; end <= 40; end++) {
    read.insert({ offset: end, tail: tailAt(end) })
    expected.expect(end)
  }
  expected.add(0, 100, bytes, tailAt)
  const last = Array.from({ length: 32 }, (_, i) => 9 + i)
  for (const { marks } of [read, expected])
    t.same(
      marks.flatMap(({ offset, isCopied }) => (isCopied ? [offset] : [])),
      last,
    )
})

/** Opens a file of which nothing was read. */
function opened(t: Test, path: string, lookedAt = () => 0, onChanged = () => {}): { tailer: Tailer; fd: number } {
  const fd = openSync(path, 'r')
  t.teardown(() => closeSync(fd))
  return { tailer: tailerOf(path, fd, lookedAt, onChanged), fd }
}

function tailerOf(path: string, fd: number, lookedAt = () => 0, onChanged = () => {}): Tailer {
  const context: Partial<TailerContext> = {
    clock: new ManualTime(),
    splitting: new Splitting(fileSource.options.parse({ include: [path] })),
    lookedAt,
    onChanged,
    onMoved: () => {},
    remote: { has: () => false } as Partial<Remote> as Remote,
    pieces: { value: 0 },
    before: Buffer.alloc(2 * FINGERPRINT_BYTES),
    beginnings: new KnownBeginnings(),
    grown: new Set(),
  }
  const stat = statSync(path, { bigint: true })
  const origin = { path, wanted: new WantedNames() } as Partial<Origin> as Origin
  const tailer = new Tailer(path, stat, origin, beginningOf(fd), context as TailerContext)
  tailer.open(fd)
  return tailer
}

const seen = (size: number, mtimeNs: bigint) => ({ size: BigInt(size), mtimeNs, uid: 0n })

t.test('a file of which more than its size was seen is known by its first bytes', async t => {
  const path = join(testFolder(t, { 'app.log': '' }), 'app.log')
  const { tailer, fd } = opened(t, path)
  writeFileSync(path, 'first\n')
  tailer.look(seen(6, 1n))
  t.equal(tailer.entry().size, 6, 'its bytes are counted as lost if it is never read')
  t.equal(tailer.holds(), true)
  const head = fingerprintAt(fd, 0, 6)
  t.match(tailer.entry(), { offset: 0, size: 6, head })
  const { reading } = tailer.entry()
  t.same(resumeOf(fd, { ...tailer.entry(), head: NO_BYTES }).content, { head, reading }, 'also by the next run')
  truncateSync(path)
  t.equal(tailer.holds(), false)
  tailer.truncated()
  t.match(tailer.entry(), { offset: 0, head, gone: true, size: 6 })
})

t.test('a file certainly holds what was read until its last look, or until a portion was read', async t => {
  const path = join(testFolder(t, { 'app.log': 'one\n' }), 'app.log')
  let looked = 1
  const { tailer } = opened(t, path, () => looked)
  const read = await tailer.read(tailer.left())
  looked = 2
  tailer.take(read, new Receiver())
  t.equal(tailer.sureUntil, 1, 'the portion was taken later')
  appendFileSync(path, 'two\n')
  t.equal(tailer.holds(), true)
  t.match(tailer, { sureUntil: 2, size: 8 })
  looked = 3
  tailer.look(seen(0, 1n))
  t.equal(tailer.sureUntil, 2, 'it is shorter now')
  tailer.look(seen(8, 2n))
  t.equal(tailer.sureUntil, 2, 'it was written')
  tailer.look(seen(8, 2n))
  t.equal(tailer.sureUntil, 2, 'nothing was compared since then')
  t.equal(tailer.holds(), true)
  looked = 4
  tailer.look(seen(8, 2n))
  t.equal(tailer.sureUntil, 4)
  appendFileSync(path, 'three\n')
  tailer.look(seen(14, 3n))
  const rest = await tailer.read(tailer.left())
  tailer.look(seen(14, 4n))
  looked = 5
  tailer.take(rest, new Receiver())
  tailer.look(seen(14, 4n))
  t.equal(tailer.sureUntil, 4, 'it was written while it was read')
  t.equal(tailer.holds(), true)
  t.equal(tailer.sureUntil, 5)
})

t.test(
  'the position of a file that is not read is saved only when its size or its first bytes have changed',
  async t => {
    const path = join(testFolder(t, { 'app.log': 'one\n' }), 'app.log')
    let changes = 0
    const { tailer } = opened(
      t,
      path,
      () => 0,
      () => changes++,
    )
    appendFileSync(path, 'two\n')
    t.equal(tailer.holds(), true)
    const before = changes
    t.not(before, 0)
    t.equal(tailer.holds(), true)
    t.equal(changes, before)
  },
)

t.test('a copy may lack bytes of its original', async t => {
  const folder = testFolder(t, { 'app.log': 'one\ntwo\n', 'app.log.1': 'one\n' })
  const { tailer } = opened(t, join(folder, 'app.log'))
  tailer.take(await tailer.read(tailer.left()), new Receiver())
  t.equal(tailer.head.bytes, 8)
  const path = join(folder, 'app.log.1')
  const fd = openSync(path, 'r')
  t.teardown(() => closeSync(fd))
  tailer.truncated()
  tailer.moveTo(path, statSync(path, { bigint: true }), fd)
  t.same(tailer.head, fingerprintAt(fd, 0, 4))
})

function listedAt(path: string): Listed {
  const stat = statSync(path, { bigint: true })
  return { key: keyOf(stat), name: basename(path), path, stat }
}

t.test('a file that was truncated, or cannot be read, is compared by what is known of it', async t => {
  const path = join(testFolder(t, { 'app.log': `${'x'.repeat(1999)}\n` }), 'app.log')
  const fd = openSync(path, 'r')
  const tailer = tailerOf(path, fd)
  tailer.sees(2000)
  const there = listedAt(path)
  const { markIn, size } = ofTailer(tailer, there)
  t.equal(size(), 2000)
  t.match(markIn(2000), { offset: 2000, tail: { bytes: FINGERPRINT_BYTES } })
  truncateSync(path, 1500)
  t.equal(size(), Number.POSITIVE_INFINITY)
  t.match(markIn(2000), { offset: 0 })
  closeSync(fd)
  t.equal(size(), Number.POSITIVE_INFINITY)
  t.match(markIn(2000), { offset: 0 })
  t.equal(ofTailer(tailer).size(), 2000, 'a file that is gone')
})

t.test('a file that is closed while it is compared is compared by its path', async t => {
  const path = join(testFolder(t, { 'app.log': 'one\n' }), 'app.log')
  const tailer = tailerOf(path, openSync(path, 'r'))
  const there = listedAt(path)
  const { size, markIn } = ofTailer(tailer, there)
  tailer.close()
  appendFileSync(path, 'two\n')
  t.equal(size(), 8)
  t.match(markIn(8), { offset: 8, tail: { bytes: 8 } })
})

t.test('the first bytes of a compressed file are not learned while it is not compared', async t => {
  const path = join(testFolder(t, { 'app.log': '' }), 'app.log')
  const { tailer } = opened(t, path)
  writeFileSync(path, gzipSync('one\n'))
  tailer.setUncompared(true)
  tailer.learnHead()
  t.equal(tailer.head.bytes, 0)
  tailer.setUncompared(false)
  tailer.learnHead()
  t.not(tailer.head.bytes, 0)
})

t.test('a file that shrinks between two looks, or between the look and the read, is truncated', async t => {
  const path = join(testFolder(t, { 'app.log': 'one\n' }), 'app.log')
  const { tailer } = opened(t, path)
  const out = new Receiver()
  const take = async () => tailer.take(await tailer.read(tailer.left()), out)
  t.type(await take(), EventBatch)
  appendFileSync(path, 'two\nthree\n')
  const left = tailer.left()
  t.equal(left, 10)
  truncateSync(path, 8)
  t.equal(tailer.take(await tailer.read(left), out), 'truncated', 'what was seen of it is missing')
  t.equal(tailer.left(), -1)
  writeFileSync(path, 'one\ntwo\nthree\n')
  t.type(await take(), EventBatch)
  appendFileSync(path, 'four\n')
  tailer.look(seen(19, 1n))
  truncateSync(path, 14)
  t.equal(tailer.left(), -1, 'as long as what was read, but shorter than what was seen')
  truncateSync(path, 4)
  t.equal(tailer.left(), -1)
})

t.test('the middle of a frame is a position only if its lines lie in the file as in memory', async t => {
  const frame = { length: 2, bytes: 8, isRun: true } as Frame
  const from = { ...emptyStart(), offset: 100 }
  const to = { ...emptyStart(), offset: 108 }
  t.match(positionsIn(frame, from, to)?.(4), { offset: 104, continues: false, carry: 0, tail: NO_BYTES })
  t.equal(positionsIn({ ...frame, isRun: false }, from, to), undefined)
  t.equal(positionsIn(frame, { ...from, continues: true }, to), undefined)
  t.equal(positionsIn({ ...frame, bytes: 9 }, from, to), undefined)
})

t.test('when the system refuses a descriptor, a tenth of the files is closed', async t => {
  const dir = testFolder(t, Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`${n}.log`, ''])))
  const descriptors = new Descriptors(100)
  const tailers = Array.from({ length: 10 }, (_, n) => {
    const path = join(dir, `${n}.log`)
    const fd = openSync(path, 'r')
    const tailer = tailerOf(path, fd)
    descriptors.used(tailer)
    return tailer
  })
  descriptors.refused()
  t.same(valuesOf(tailers, 'isOpen'), [false, ...Array(9).fill(true)], 'the one that was not read for the longest time')
  for (const tailer of tailers) descriptors.close(tailer)
})

t.test('a sweep may release a deleted file while a stop reads its rest', async t => {
  const said: unknown[] = []
  const left = () => {
    if (!tailer.isOpen) throw new TypeError('there is no descriptor')
    return 6
  }
  const tailer = { path: 'app.log', isOpen: true, unread: 6, left, read: () => 6, take: () => 'batch', unpark() {} }
  const options: Partial<ReaderOptions> = {
    clock: systemClock,
    splitting: new Splitting(fileSource.options.parse({ include: ['app.log'] })),
    beforeSend: () => undefined,
    isStopped: () => true,
    files: { tailers: [], unfindable: async () => [tailer as unknown as Tailer] } as unknown as ReaderOptions['files'],
    onUnfindable: () => {},
    onLost: () => said.push('lost'),
    problems: { failed: (...args: unknown[]) => said.push(args) } as unknown as PathProblems,
  }
  const send = async (batch: unknown) => {
    said.push(batch)
    tailer.isOpen = false
  }
  await new Reader(options as ReaderOptions).run({ send } as unknown as Output, AbortSignal.abort(), true)
  t.same(said, ['batch'])
})

t.test('a file is held until a sweep has looked for the file before it', async t => {
  const held: Tailer[] = []
  const earlier = [{ isPostponed: true }]
  const tailer = { path: 'app.log', isBehind: true, earlier, becomes() {}, pause() {} } as unknown as Tailer
  const options: Partial<ReaderOptions> = {
    clock: systemClock,
    splitting: new Splitting(fileSource.options.parse({ include: ['app.log'] })),
    isStopped: () => false,
    areHeld: () => held.length === 0,
    files: { tailers: [], hold: (one: Tailer) => held.push(one) } as unknown as ReaderOptions['files'],
    open: () => true,
  }
  const reader = new Reader(options as ReaderOptions)
  reader.ready(tailer)
  await reader.run({} as Output, AbortSignal.timeout(10_000), false)
  t.same(held, [tailer])
})

t.test('what follows a long unfinished line is read into memory that is reused', async t => {
  for (const pending of [0, 20_000, 100_000, 268_287]) {
    const splitter = new LineSplitter(1_000_000)
    const portion = new Portion(systemClock, {} as TailerContext['remote'])
    // The place in a page that leaves the least room.
    const offset = 2 ** 33 + pending - 1
    splitter.reserve(pending, offset - pending).fill('x', 0, pending)
    splitter.commit(pending)
    const room = portion.begin(splitter, 256 * 1024, offset)
    t.ok(isInChunkMemory(room), `${pending} bytes`)
    t.equal(room.byteOffset % 4096, offset % 4096, 'as it lies in pages of the file')
    t.ok(room.length >= 128 * 1024, 'and much of it')
  }
})
