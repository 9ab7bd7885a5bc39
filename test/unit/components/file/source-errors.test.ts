import fs, {
  appendFileSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { guardBy, orNone } from '../../../../src/lib/files/disk/disk.js'
import { fileSystems } from '../../../../src/lib/files/disk/file-systems.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { hideBirthTimes, refuseWatches } from '../../../support/habits-of-disks.js'
import {
  arrived,
  laterFiles,
  type MemoryCheckpoints,
  Receiver,
  settled,
  type Tailing,
  TestTime,
  tail,
} from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

/** What errors of the system about one file or folder do, and what they must not do to others. */

const HOUR_MS = 3_600_000

/** Lines that are long enough to be recognized, and differ so much that they can hardly be compressed. */
const numbered = (from: number, to: number, name = 'line') =>
  Array.from({ length: to - from }, (_, i) => `${name} ${from + i} ${Math.sin(from + i + 1)} ${Math.cos(from + i)}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

type Calls = Record<string, (...args: unknown[]) => unknown>
const calls = fs as unknown as Calls
const real: Calls = { ...calls }
const READS = ['readSync', 'readvSync', 'readv']

/** Lets these calls fail with `code`, until `end`, about each path or descriptor that `isOf` accepts. */
function fail(t: Test, code: string, names: readonly string[], isOf: (file: unknown) => boolean): { end: () => void } {
  const end = () => {
    for (const name of names) calls[name] = real[name]!
    syncBuiltinESMExports()
  }
  for (const name of names)
    calls[name] = (...args) => {
      if (!isOf(args[0])) return real[name]!(...args)
      const error = Object.assign(new Error(`${code}: ${name}`), { code })
      if (name.endsWith('Sync')) throw error
      return setImmediate(args.at(-1) as (error: Error) => void, error)
    }
  syncBuiltinESMExports()
  t.teardown(end)
  return { end }
}

/**
 * Lets the first two reads of a file fail that begin at a position that `isThere` accepts. Returns how many reads began
 * there.
 */
function failReads(t: Test, path: string, isThere: (position: unknown) => boolean): () => number {
  const { ino } = statSync(path)
  let reads = 0
  calls.read = (...args) => {
    if (orNone(() => fstat(args[0]).ino) !== ino || !isThere(args[4]) || ++reads > 2) return real.read!(...args)
    return setImmediate(args[5] as (error: Error) => void, Object.assign(new Error('EIO: read'), { code: 'EIO' }))
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    calls.read = real.read!
    syncBuiltinESMExports()
  })
  return () => reads
}

const fstat = (fd: unknown) => real.fstatSync!(fd) as fs.Stats

/** Copies that were just made are at rest three seconds later. */
function ahead(ms = 3000): TestTime {
  const time = new TestTime()
  time.ms = ms
  return time
}

const start = (options: object, checkpoints?: MemoryCheckpoints, time = new TestTime()) =>
  tail({ rotate_wait: '1h', ...options }, checkpoints, undefined, time)

/** From now on, what is opened in `dir` has another device number, and what is open there cannot be read. */
function mountAgain(t: Test, dir: string): void {
  const isIn = (file: unknown) => {
    const path = typeof file === 'number' ? orNone(() => readlinkSync(`/proc/self/fd/${file}`)) : String(file)
    return path?.startsWith(`${dir}/`) === true
  }
  const old = new Set<unknown>(readdirSync('/proc/self/fd').map(Number).filter(isIn))
  const { end } = fail(t, 'ENOTCONN', [...READS, 'fstatSync'], fd => old.has(fd))
  for (const name of ['statSync', 'fstatSync']) {
    const call = calls[name]!
    calls[name] = (...args) => {
      const stat = call(...args) as { dev: number | bigint } | undefined
      if (stat && isIn(args[0])) stat.dev = typeof stat.dev === 'bigint' ? stat.dev + 1n : stat.dev + 1
      return stat
    }
  }
  calls.closeSync = fd => {
    old.delete(fd)
    return real.closeSync!(fd)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(calls, { statSync: real.statSync, closeSync: real.closeSync })
    end()
  })
}

/** The file is compressed and a new one takes its name, all at once. */
function compress(path: string, rest: readonly string[], next: readonly string[], cut?: number): void {
  appendFileSync(path, asText(rest))
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)).subarray(0, cut))
  // Its inode is not given to the next one.
  renameSync(path, `${path}.old`)
  writeFileSync(path, asText(next))
  rmSync(`${path}.old`)
}

t.test('open files that were removed on the server: others are read, and a rest comes from the copy', async t => {
  const first = numbered(0, 20)
  const dir = testFolder(t, { 'a.log': asText(first), 'b.log': 'b1\n', 'c.log': 'c1\n' })
  const path = join(dir, 'a.log')
  const time = new TestTime()
  const run = await start({ include: [join(dir, '*.log')] }, undefined, time)
  await settled(run, 22)
  fail(t, 'ESTALE', ['fstatSync', ...READS], fd => fstat(fd).nlink === 0)
  rmSync(join(dir, 'c.log'))
  compress(path, numbered(20, 25), ['new'])
  await settled(run, 28)
  time.ms += HOUR_MS
  await run.scanned(2)
  appendFileSync(join(dir, 'b.log'), 'b2\n')
  await settled(run, 29)
  t.same(run.out.texts(path), [...numbered(0, 25), 'new'])
  t.same(run.out.texts(join(dir, 'b.log')), ['b1', 'b2'])
  await run.stop()
})

t.test('an open file whose first bytes cannot be read: others are read, although a copy of it appears', async t => {
  const dir = testFolder(t, { 'a.log': asText(numbered(0, 40)), 'b.log': 'b1\n' })
  const run = await start({ include: [join(dir, '*')] })
  await settled(run, 41)
  const { ino } = statSync(join(dir, 'a.log'))
  const { end } = fail(t, 'EIO', READS, fd => fstat(fd).ino === ino)
  copyFileSync(join(dir, 'a.log'), join(dir, 'a.log.1'))
  await run.scanned(3)
  appendFileSync(join(dir, 'b.log'), 'b2\n')
  writeFileSync(join(dir, 'c.log'), 'c1\n')
  await until('the others', () => run.out.texts().includes('b2') && run.out.texts().includes('c1'))
  end()
  appendFileSync(join(dir, 'a.log'), 'after\n')
  await until('the rest', () => run.out.texts().includes('after'))
  t.equal(run.out.texts().length, 41 + 3)
  await run.stop()
})

t.test('a file whose file system was mounted again is read on with a new descriptor', async t => {
  const dir = testFolder(t, { 'a.log': 'a1\n', 'b.log': 'b1\n' })
  const path = join(dir, 'a.log')
  const run = await start({ include: [join(dir, '*.log')] })
  await settled(run, 2)
  const { ino } = statSync(path)
  const isOfFile = (fd: number) => {
    try {
      return fstat(fd).ino === ino
    } catch {
      return false
    }
  }
  const dead = new Set(fs.readdirSync('/proc/self/fd').map(Number).filter(isOfFile))
  t.equal(dead.size, 1)
  calls.closeSync = fd => {
    real.closeSync!(fd)
    dead.delete(fd as number)
  }
  t.teardown(() => (calls.closeSync = real.closeSync!))
  fail(t, 'ENOTCONN', ['fstatSync', ...READS], fd => dead.has(fd as number))
  appendFileSync(path, 'a2\n')
  await settled(run, 3)
  appendFileSync(path, 'a3\n')
  await settled(run, 4)
  t.same(run.out.texts(path), ['a1', 'a2', 'a3'])
  t.equal(dead.size, 0)
  await run.stop()
})

/** A run that read the lines and has stopped. */
async function readBefore(t: Test, lines: readonly string[], include = 'app.log') {
  const dir = testFolder(t, { 'app.log': asText(lines) })
  const options = { include: [join(dir, include)] }
  const run = await start(options)
  await settled(run, lines.length)
  await run.stop()
  return { dir, path: join(dir, 'app.log'), options, checkpoints: run.checkpoints }
}

t.test('no descriptor is left when a copy is inflated: nothing comes twice', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 200))
  compress(path, numbered(200, 210), ['new'])
  let opened = 0
  // At first its beginning is read.
  fail(t, 'EMFILE', ['openSync'], file => file === `${path}.1.gz` && ++opened === 2)
  const run = await start(options, checkpoints, ahead())
  await settled(run, 11)
  await run.scanned(3)
  t.same(run.out.texts(), [...numbered(200, 210), 'new'])
  t.ok(opened > 2)
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

t.test('a copy that cannot be read for a while, somewhere in its rest: all of the rest is read', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 20))
  compress(path, numbered(20, 1000), ['new'])
  const copy = `${path}.1.gz`
  // The read of what is behind these bytes.
  const failed = failReads(t, copy, position => position === 8192)
  const time = ahead()
  const run = await start(options, checkpoints, time)
  await until('it to fail', () => failed() > 0)
  await run.scanned(2)
  const delivered = run.out.lines.length
  t.ok(delivered > 1 && delivered < 981, 'what comes before is read')
  for (let i = 0; i < 2; i++) {
    time.ms += 2000
    await run.scanned(2)
  }
  await settled(run, 981)
  t.same(
    run.out.texts().filter(text => text !== 'new'),
    numbered(20, 1000),
  )
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

t.test('a copy that is cut before the position: nothing comes twice', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 200))
  compress(path, [], ['new'], 3000)
  const run = await start(options, checkpoints, ahead())
  await settled(run, 1)
  await run.scanned(3)
  t.same(run.out.texts(), ['new'])
  await run.stop()
})

/** Fewer scans than fit into the time for which a search delays files. */
const FEW_SCANS = 100

t.test('a folder in which other names come all the time: the new file of a name is read', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await start({ include: [path] })
  await settled(run, 1)
  let other = 0
  const { readdirSync } = fs
  calls.readdirSync = (...args) => {
    if (args[0] === dir) {
      rmSync(join(dir, `other-${other}`), { force: true })
      writeFileSync(join(dir, `other-${++other}`), '')
    }
    return real.readdirSync!(...args)
  }
  t.teardown(() => (fs.readdirSync = readdirSync))
  await run.scanned(2)
  const before = run.value('sluice_file_scans_total')!
  renameSync(path, `${path}.1`)
  writeFileSync(path, '2\n')
  await settled(run, 2)
  t.ok(run.value('sluice_file_scans_total')! < before + FEW_SCANS)
  await run.stop()
})

t.test('a compressed file that changes all the time delays the new file for ten seconds', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 3)) })
  const path = join(dir, 'app.log')
  const time = new TestTime()
  let wall: number | undefined
  const clock = { now: time.now, after: time.after, wall: () => wall ?? time.wall() }
  const run = await tail({ include: [path] }, undefined, undefined, clock)
  await settled(run, 3)
  renameSync(path, `${path}.old`)
  writeFileSync(`${path}.gz`, gzipSync(asText(numbered(0, 50, 'other'))))
  // From now on it has just changed.
  wall = systemClock.wall()
  writeFileSync(path, 'new\n')
  await run.scanned(5)
  t.equal(run.out.lines.length, 3)
  time.ms += 10_001
  await settled(run, 4)
  t.equal(run.out.texts().at(-1), 'new')
  await run.stop()
})

t.test('the clock was set back: a new file is not delayed by those before it', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 20))
  compress(path, [], ['new'])
  renameSync(`${path}.1.gz`, `${path}.2.gz`)
  writeFileSync(`${path}.1.gz`, gzipSync(asText(numbered(0, 5, 'unseen'))))
  const run = await start(options, checkpoints, ahead(-HOUR_MS))
  await settled(run, 6)
  t.same(run.out.texts(), [...numbered(0, 5, 'unseen'), 'new'])
  t.ok(run.value('sluice_file_scans_total')! < FEW_SCANS)
  await run.stop()
})

/** Blocks the destination, until `go`, with a batch of busy.log. */
async function block(run: Tailing, dir: string): Promise<() => void> {
  let go = () => {}
  run.out.room = new Promise(resolve => {
    go = resolve
  })
  appendFileSync(join(dir, 'busy.log'), 'busy 2\n')
  await arrived(run, run.out.lines.length + 1)
  return () => {
    run.out.room = Promise.resolve()
    go()
  }
}

for (const isCompressed of [true, false])
  t.test(`a copy that cannot be opened, until no more can be sent: ${isCompressed ? 'gzip' : 'plain'}`, async t => {
    const lines = numbered(0, 30)
    const dir = testFolder(t, { 'app.log': asText(lines), 'busy.log': 'busy 1\n' })
    const copy = join(dir, isCompressed ? 'app.log.1.gz' : 'app.log.1')
    const options = { include: [join(dir, '*')] }
    const run = await start(options)
    await settled(run, 31)
    const bytes = readFileSync(join(dir, 'app.log'))
    writeFileSync(copy, isCompressed ? gzipSync(bytes) : bytes)
    const { end } = fail(t, 'EACCES', ['openSync'], file => file === copy)
    await run.scanned(3)
    await block(run, dir)
    end()
    await run.scanned(3)
    await run.stop()
    const next = await start(options, run.checkpoints, ahead())
    await next.scanned(3)
    t.same(next.out.texts(), [])
    appendFileSync(join(dir, 'app.log'), 'after\n')
    await settled(next, 1)
    t.same(next.out.texts(), ['after'])
    await next.stop()
  })

t.test('a copy whose name says nothing is made while the reader is busy: nothing comes twice', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 30)), 'busy.log': 'busy 1\n' })
  const path = join(dir, 'app.log')
  const run = await start({ include: [join(dir, '*')] })
  await settled(run, 31)
  const go = await block(run, dir)
  appendFileSync(path, asText(numbered(30, 40)))
  await run.scanned(2)
  copyFileSync(path, join(dir, 'app.1.log'))
  truncateSync(path)
  appendFileSync(path, 'after\n')
  await run.scanned(3)
  go()
  await settled(run, 43)
  await run.scanned(3)
  t.same(run.out.texts(path), [...numbered(0, 40), 'after'])
  t.equal(run.out.lines.length, 43)
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

for (const [code, include, isOnlySearch] of [
  ['EACCES', '*.log', false],
  ['EIO', 'app.log', false],
  ['EMFILE', 'app.log', true],
] as const)
  t.test(`a folder that cannot be listed at the start, ${code} for ${include}: nothing counts as lost`, async t => {
    const dir = testFolder(t, { 'app.log': asText(numbered(0, 10)) })
    const path = join(dir, 'app.log')
    const options = { include: [join(dir, include)] }
    const first = await start(options)
    await settled(first, 10)
    first.out.hold = true
    appendFileSync(path, asText(numbered(10, 15)))
    await settled(first, 15)
    await first.stop()
    for (const name of ['two', 'three']) {
      await laterFiles(dir)
      if (name === 'three') renameSync(`${path}.1`, `${path}.2`)
      renameSync(path, `${path}.1`)
      writeFileSync(path, asText(numbered(0, 5, name)))
    }
    const { readdirSync } = fs
    let fails = true
    calls.readdirSync = (...args) => {
      if (fails && args[0] === dir && !(isOnlySearch && args.length > 1))
        throw Object.assign(new Error(`${code}: scandir`), { code })
      return real.readdirSync!(...args)
    }
    t.teardown(() => (fs.readdirSync = readdirSync))
    const run = await start(options, first.checkpoints, ahead())
    await run.scanned(4)
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    fails = false
    await settled(run, 15)
    t.same(run.out.texts().sort(), [...numbered(10, 15), ...numbered(0, 5, 'two'), ...numbered(0, 5, 'three')].sort())
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    await run.stop()
  })

for (const [title, isKept, restarts] of [
  ['a renamed file', true, false],
  ['a deleted file', false, false],
  ['a renamed file, and a stop', true, true],
] as const)
  t.test(`only searches can list a folder: the successor of ${title}`, async t => {
    refuseWatches(t)
    const { dir, path, options, checkpoints } = await readBefore(t, numbered(0, 10), '*.log')
    renameSync(path, `${path}.1`)
    await laterFiles(dir)
    writeFileSync(path, asText(numbered(0, 5, 'two')))
    if (!isKept) rmSync(`${path}.1`)
    await laterFiles(dir)
    // Only a scan asks for the kinds of the files, too.
    let fails: 'all' | 'scans' | 'none' = 'all'
    calls.readdirSync = (...args) => {
      if (args[0] === dir && (fails === 'all' || (fails === 'scans' && args.length > 1)))
        throw Object.assign(new Error('EIO: scandir'), { code: 'EIO' })
      return real.readdirSync!(...args)
    }
    t.teardown(() => Object.assign(calls, { readdirSync: real.readdirSync }))
    let run = await start(options, checkpoints)
    await run.scanned(4)
    fails = 'scans'
    await run.scanned(4)
    t.same(run.out.texts(), [])
    if (restarts) {
      await run.stop()
      run = await start(options, run.checkpoints)
      await run.scanned(2)
    }
    // It is renamed before a scan finds it.
    if (isKept) renameSync(`${path}.1`, `${path}.2`)
    renameSync(path, `${path}.1`)
    writeFileSync(path, asText(numbered(0, 5, 'three')))
    fails = 'none'
    await settled(run, 10)
    t.same(run.out.texts(), [...numbered(0, 5, 'two'), ...numbered(0, 5, 'three')])
    await run.stop()
  })

t.test('a folder that can never be listed: a new file that begins like another one is read', async t => {
  const banner = numbered(0, 2, 'the program and its version')
  const dir = testFolder(t, { 'a.log': asText(banner) })
  fail(t, 'EACCES', ['readdirSync'], folder => folder === dir)
  const run = await start({ include: [join(dir, 'a.log'), join(dir, 'b.log')] })
  await settled(run, 2)
  writeFileSync(join(dir, 'b.log'), asText([...banner, 'line of b']))
  await settled(run, 5)
  t.same(run.out.texts(join(dir, 'b.log')), [...banner, 'line of b'])
  await run.stop()
})

for (const [title, call, name] of [
  ['its folder cannot be listed', 'readdirSync', ''],
  ['its path cannot be examined', 'statSync', 'n.log'],
] as const)
  t.test(`an unfinished line of a file comes in one part, although for a while ${title}`, async t => {
    const dir = testFolder(t, { 'n.log': '1\nhal' })
    const path = join(dir, 'n.log')
    const time = new TestTime()
    const options = { include: [join(dir, '*.log')], rotate_wait: '1m', partial_line_timeout: '1h' }
    const run = await start(options, undefined, time)
    await run.read(path)
    const { end } = fail(t, 'EACCES', [call], file => file === join(dir, name))
    writeFileSync(join(dir, 'other'), '')
    await run.scanned(2)
    time.ms += 2 * 60_000
    await run.scanned(3)
    end()
    appendFileSync(path, 'f\n')
    await settled(run, 2)
    t.same(run.out.texts(), ['1', 'half'])
    await run.stop()
  })

/** `failing`: how many attempts to open the file fail; the second is that of the search. */
for (const failing of [1, 2, 3])
  t.test(`read_from: end begins at the end of a file that could not be opened at first, ${failing} times`, async t => {
    const dir = testFolder(t, { 'old.log': asText(numbered(0, 5)), 'b.log': 'old b\n' })
    const path = join(dir, 'old.log')
    let opened = 0
    fail(t, 'EACCES', ['openSync'], file => file === path && ++opened <= failing)
    const run = await start({ include: [join(dir, '*.log')], read_from: 'end' })
    await until('it to be read', () => run.value('sluice_files_watched') === 2)
    await run.scanned(2)
    appendFileSync(path, 'after\n')
    await settled(run, 1)
    t.same(run.out.texts(), ['after'])
    await run.stop()
    appendFileSync(path, 'more\n')
    writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
    rmSync(path)
    writeFileSync(path, 'new\n')
    const next = await start({ include: [join(dir, '*.log')], read_from: 'end' }, run.checkpoints)
    await settled(next, 2)
    t.same(next.out.texts(), ['more', 'new'], 'and its copy is recognized')
    await next.stop()
  })

t.test('in a folder that cannot be listed, a truncated file is read on, and a deleted one to its end', async t => {
  const dir = testFolder(t, { 'app.log': 'one\ntwo\n', 'gone.log': 'three\nunfinished' })
  fail(t, 'EACCES', ['readdirSync'], folder => folder === dir)
  const run = await start({ include: [join(dir, 'app.log'), join(dir, 'gone.log')] })
  await settled(run, 3)
  writeFileSync(join(dir, 'app.log'), 'new\n')
  await settled(run, 4)
  rmSync(join(dir, 'gone.log'))
  await run.stop()
  t.same(run.out.texts(join(dir, 'app.log')), ['one', 'two', 'new'])
  t.same(run.out.texts(join(dir, 'gone.log')), ['three', 'unfinished'])
})

t.test(
  'a file that could not be opened before it was compressed is read from the copy, and not counted as lost',
  async t => {
    const dir = testFolder(t, { 'app.log': '', 'b.log': 'b1\n' })
    const path = join(dir, 'app.log')
    const run = await start(
      { include: [join(dir, '*.log')], max_open_files: 1, rotate_wait: '10ms' },
      undefined,
      ahead(),
    )
    await settled(run, 1)
    let release = () => {}
    run.out.room = new Promise(resolve => {
      release = resolve
    })
    // The only descriptor is that of a file whose receiver takes nothing.
    appendFileSync(join(dir, 'b.log'), 'b2\n')
    await until('the receiver is busy', () => run.out.lines.length === 2)
    appendFileSync(path, asText(numbered(0, 20)))
    await run.scanned(2)
    compress(path, [], ['new'])
    await run.scanned(10)
    release()
    await settled(run, 2 + 21)
    t.same(run.out.texts(path), [...numbered(0, 20), 'new'])
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    await run.stop()
  },
)

for (const [title, options] of [
  ['at once', {}],
  ['when its files are closed', { max_open_files: 1 }],
  ['when its files were given up', { rotate_wait: '10ms' }],
] as const)
  t.test(`a file system is mounted again ${title}, with another device number: its files are read on`, async t => {
    const [one, two] = [numbered(0, 30, 'one'), numbered(0, 30, 'two')]
    const dir = testFolder(t, { 'one.log': asText(one.slice(0, 20)), 'two.log': asText(two.slice(0, 20)) })
    const run = await start({ include: [join(dir, '*.log')], ...options })
    await settled(run, 40)
    if ('rotate_wait' in options) {
      const { end } = fail(t, 'ENOENT', ['readdirSync', 'statSync', 'openSync'], path => String(path).startsWith(dir))
      await until('them to be given up', () => run.value('sluice_files_watched') === 0)
      end()
    }
    mountAgain(t, dir)
    appendFileSync(join(dir, 'one.log'), asText(one.slice(20)))
    appendFileSync(join(dir, 'two.log'), asText(two.slice(20)))
    await settled(run, 60)
    await run.scanned(3)
    t.same(run.out.texts(join(dir, 'one.log')), one)
    t.same(run.out.texts(join(dir, 'two.log')), two)
    await run.stop()
  })

/** The lines of three files that have one name, one after the other. */
const [one, two, three] = [numbered(0, 10, 'one'), numbered(0, 10, 'two'), numbered(0, 10, 'three')]

/** Lets other files have the name, and this one `NAME.1`. What was there before is `NAME.2`. */
function rotate(path: string, next: readonly string[]): void {
  if (fs.existsSync(`${path}.1`)) renameSync(`${path}.1`, `${path}.2`)
  renameSync(path, `${path}.1`)
  writeFileSync(path, asText(next))
}

for (const [title, call] of [
  ['examined', 'statSync'],
  ['opened', 'openSync'],
] as const)
  t.test(`a name that cannot be ${title} for several scans, in which files came and went: all are read`, async t => {
    refuseWatches(t)
    const dir = testFolder(t, { 'app.log': asText(one) })
    const path = join(dir, 'app.log')
    const run = await start({ include: [join(dir, '*.log')] })
    await settled(run, 10)
    await laterFiles(dir)
    const { end } = fail(t, 'EACCES', [call], file => file === path)
    rotate(path, two)
    rotate(path, three)
    await laterFiles(dir)
    await run.scanned(5)
    end()
    await settled(run, 30)
    t.same(run.out.texts().sort(), [...one, ...two, ...three].sort())
    await run.stop()
  })

t.test('a name that cannot be examined before a kill, in which files came and went: all are read', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const options = { include: [join(dir, '*.log')] }
  const run = await start(options)
  await settled(run, 10)
  await laterFiles(dir)
  const { end } = fail(t, 'EACCES', ['statSync'], file => file === path)
  rotate(path, two)
  rotate(path, three)
  await laterFiles(dir)
  await run.scanned(5)
  await run.stop()
  end()
  const next = await start(options, run.checkpoints)
  await settled(next, 20)
  t.same(next.out.texts().sort(), [...two, ...three].sort())
  await next.stop()
})

t.test('a path that cannot be examined at the stop: its unfinished line is not delivered in parts', async t => {
  const dir = testFolder(t, { 'n.log': '1\nhal' })
  const path = join(dir, 'n.log')
  const options = { include: [join(dir, '*.log')] }
  const run = await start(options)
  await run.read(path)
  const { end } = fail(t, 'EIO', ['statSync'], file => file === path)
  await run.stop()
  end()
  t.same(run.out.texts(), ['1'])
  appendFileSync(path, 'f\n')
  const next = await start(options, run.checkpoints)
  await settled(next, 1)
  t.same(next.out.texts(), ['half'])
  await next.stop()
})

t.test('a file that was copied and truncated during a stop, and cannot be examined by the first scan', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 40))
  copyFileSync(path, `${path}.1`)
  writeFileSync(path, asText(numbered(0, 60, 'new')))
  let calls = 0
  fail(t, 'EIO', ['statSync'], file => file === path && ++calls === 1)
  const run = await start(options, checkpoints, ahead())
  await settled(run, 60)
  await run.scanned(3)
  t.same(run.out.texts(), numbered(0, 60, 'new'))
  await run.stop()
})

t.test('a file that could not be opened at first is rotated twice between two scans: all are read', async t => {
  refuseWatches(t)
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 40))
  appendFileSync(path, asText(numbered(40, 45)))
  let calls = 0
  fail(t, 'EIO', ['openSync'], file => file === path && ++calls === 1)
  const run = await start({ ...options, scan_interval: '300ms' }, checkpoints)
  await arrived(run, 5)
  rotate(path, numbered(0, 10, 'two'))
  rotate(path, numbered(0, 10, 'three'))
  await settled(run, 25)
  t.same(run.out.texts().sort(), [...numbered(40, 45), ...numbered(0, 10, 'two'), ...numbered(0, 10, 'three')].sort())
  await run.stop()
})

t.test('a file that only a search opened is rotated twice, and so is opened the last one: all are read', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  let failing = 1
  fail(t, 'EIO', ['openSync'], file => file === path && failing-- > 0)
  const run = await start({ include: [path], scan_interval: '300ms' })
  await arrived(run, 10)
  failing = Number.POSITIVE_INFINITY
  rotate(path, two)
  rotate(path, three)
  await laterFiles(dir)
  await run.scanned(3)
  failing = 1
  await settled(run, 30)
  t.same(run.out.texts().sort(), [...one, ...two, ...three].sort())
  await run.stop()
})

t.test('a file that was rotated unseen, and cannot be examined for a while, is read', async t => {
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const run = await start({ include: [join(dir, '*.log')] })
  await settled(run, 10)
  await laterFiles(dir)
  const { end } = fail(t, 'EIO', ['statSync', 'openSync'], file => file === `${path}.1`)
  rotate(path, two)
  rotate(path, three)
  await settled(run, 20)
  await run.scanned(3)
  // It is noted again, with a later time.
  await laterFiles(dir)
  renameSync(path, `${path}.0`)
  writeFileSync(path, 'four\n')
  await settled(run, 21)
  end()
  await settled(run, 31)
  t.same(run.out.texts().sort(), [...one, ...two, ...three, 'four'].sort())
  await run.stop()
})

t.test('a file that cannot be examined when a source starts does not count as lost', async t => {
  const lines = numbered(0, 10)
  const dir = testFolder(t, { 'app.log': '' })
  const path = join(dir, 'app.log')
  const options = { include: [join(dir, '*.log')] }
  const first = await start(options)
  first.out.hold = true
  appendFileSync(path, asText(lines))
  await settled(first, 10)
  await first.stop()
  renameSync(path, `${path}.1`)
  const { end } = fail(t, 'EIO', ['statSync'], file => file === `${path}.1`)
  const run = await start(options, first.checkpoints)
  await run.scanned(3)
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  end()
  await settled(run, 10)
  t.same(run.out.texts(), lines)
  await run.stop()
})

for (const names of [['fstatSync', ...READS], READS])
  t.test(`an open file is copied and truncated while these fail: ${names}; nothing comes twice`, async t => {
    const dir = testFolder(t, { 'app.log': asText(numbered(0, 40)) })
    const path = join(dir, 'app.log')
    const run = await start({ include: [join(dir, '*')] })
    await settled(run, 40)
    const { ino } = statSync(path)
    const { end } = fail(t, 'EIO', names, fd => fstat(fd).ino === ino)
    appendFileSync(path, asText(numbered(40, 50)))
    copyFileSync(path, `${path}.1`)
    truncateSync(path)
    appendFileSync(path, 'after\n')
    await run.scanned(4)
    end()
    await settled(run, 51)
    await run.scanned(3)
    t.same(run.out.texts(), [...numbered(0, 50), 'after'])
    await run.stop()
  })

t.test('files whose permissions are corrected are read at once', async t => {
  const names = Array.from({ length: 20 }, (_, i) => `${i}.log`)
  const dir = testFolder(t, Object.fromEntries(names.map(name => [name, `line of ${name}\n`])))
  const { end } = fail(t, 'EACCES', ['openSync'], file => String(file).startsWith(`${dir}/`))
  const run = await start({ include: [join(dir, '*.log')], scan_interval: '1h' })
  // The second scan begins when the folder is watched.
  await until('two scans', () => run.value('sluice_file_scans_total')! >= 2)
  end()
  for (const name of names) fs.chmodSync(join(dir, name), 0o600)
  await arrived(run, 20)
  t.same(run.out.texts().sort(), names.map(name => `line of ${name}`).sort())
  await run.stop()
})

t.test('a file that was copied and truncated during a stop, and that can be opened only after a search', async t => {
  const { path, options, checkpoints } = await readBefore(t, numbered(0, 40))
  copyFileSync(path, `${path}.1`)
  writeFileSync(path, asText(numbered(0, 60, 'new')))
  let calls = 0
  fail(t, 'EACCES', ['openSync'], file => file === path && ++calls <= 2)
  const run = await start(options, checkpoints, ahead())
  await settled(run, 60)
  await run.scanned(3)
  t.same(run.out.texts(), numbered(0, 60, 'new'))
  await run.stop()
})

for (const isCompressed of [true, false])
  t.test(`a file that was never sent, and its ${isCompressed ? 'gzip' : 'plain'} copy: both are read`, async t => {
    const dir = testFolder(t, { 'app.log': asText(numbered(0, 40)) })
    const path = join(dir, 'app.log')
    const out = new Receiver()
    out.hold = true
    const first = await tail({ include: [path] }, undefined, out)
    await arrived(first, 40)
    await first.stop()
    if (isCompressed) writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
    else copyFileSync(path, `${path}.1`)
    writeFileSync(path, asText(numbered(0, 10, 'new')))
    let calls = 0
    fail(t, 'EACCES', ['openSync'], file => file === path && ++calls === 1)
    const run = await start({ include: [path] }, first.checkpoints, ahead())
    await settled(run, 50)
    t.same(run.out.texts(), [...numbered(0, 40), ...numbered(0, 10, 'new')])
    await run.stop()
  })

for (const [isCompressed, failing] of [true, false].flatMap(is => [1, 2, 3, 4].map(at => [is, at] as const)))
  t.test(`a ${isCompressed ? 'compressed' : 'plain'} copy cannot be opened once, the ${failing}. time`, async t => {
    const lines = numbered(0, 30)
    const dir = testFolder(t, { 'app.log': asText(lines) })
    const path = join(dir, 'app.log')
    const copy = isCompressed ? `${path}.1.gz` : `${path}.1`
    const run = await start({ include: [join(dir, '*')] })
    await settled(run, 30)
    let calls = 0
    writeFileSync(join(dir, '.new'), isCompressed ? gzipSync(readFileSync(path)) : readFileSync(path))
    fail(t, 'EACCES', ['openSync'], file => file === copy && ++calls === failing)
    renameSync(join(dir, '.new'), copy)
    await run.scanned(10)
    t.same(run.out.texts(), lines)
    await run.stop()
  })

for (const isCompressed of [true, false])
  t.test(`a ${isCompressed ? 'compressed' : 'plain'} copy cannot be opened at first, however often`, async t => {
    const lines = numbered(0, 30)
    for (let most = 2; most < 12; most++) {
      const dir = testFolder(t, { 'app.log': asText(lines) })
      const path = join(dir, 'app.log')
      const copy = isCompressed ? `${path}.1.gz` : `${path}.1`
      const run = await start({ include: [join(dir, '*')] })
      await settled(run, 30)
      let calls = 0
      writeFileSync(join(dir, '.new'), isCompressed ? gzipSync(readFileSync(path)) : readFileSync(path))
      const { end } = fail(t, 'EACCES', ['openSync'], file => file === copy && ++calls <= most)
      renameSync(join(dir, '.new'), copy)
      await until('it to be opened', () => calls > most)
      await run.scanned(3)
      end()
      t.same(run.out.texts(), lines, `${most} times`)
      await run.stop()
    }
  })

t.test('a file is given up while its folder cannot be listed: its copy is known when it can be listed', async t => {
  const lines = numbered(0, 20)
  const dir = testFolder(t, { 'app.log': asText(lines) })
  const path = join(dir, 'app.log')
  const time = ahead()
  const run = await start({ include: [join(dir, '*')] }, undefined, time)
  await settled(run, 20)
  const { end } = fail(t, 'EACCES', ['readdirSync'], folder => folder === dir)
  compress(path, [], ['new'])
  await settled(run, 21)
  await run.scanned(2)
  time.ms += HOUR_MS
  await until('it to be given up', () => run.value('sluice_files_watched') === 1)
  end()
  await run.scanned(5)
  t.same(run.out.texts(), [...lines, 'new'])
  await run.stop()
})

t.test('a file that was never opened is rotated, and so is the next one, whose name cannot be examined', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const opened = fail(t, 'EIO', ['openSync'], file => String(file).startsWith(path))
  const rename = (lines: readonly string[]) => {
    writeFileSync(join(dir, 'next'), asText(lines))
    if (fs.existsSync(`${path}.1`)) renameSync(`${path}.1`, `${path}.2`)
    renameSync(path, `${path}.1`)
    renameSync(join(dir, 'next'), path)
  }
  const run = await start({ include: [join(dir, '*.log')] })
  await run.scanned(2)
  await laterFiles(dir)
  const examined = fail(t, 'EIO', ['statSync'], file => file === path)
  await run.scanned(2)
  rename(two)
  await laterFiles(dir)
  await run.scanned(3)
  rename(three)
  await laterFiles(dir)
  await run.scanned(5)
  examined.end()
  opened.end()
  await settled(run, 30)
  t.same(run.out.texts().sort(), [...one, ...two, ...three].sort())
  await run.stop()
})

t.test('a file that was never opened is rotated twice before the next look: the file between is read, too', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const { ino } = statSync(path)
  const opened = fail(t, 'EIO', ['openSync'], file => fs.existsSync(String(file)) && statSync(String(file)).ino === ino)
  const run = await start({ include: [join(dir, '*.log')] })
  await run.scanned(2)
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, asText(two))
  await run.scanned(5)
  opened.end()
  await settled(run, 20)
  t.same(run.out.texts().sort(), [...one, ...two].sort())
  await run.stop()
})

for (const births of ['kept', 'zero', 'changes'] as const)
  t.test(`a file that was never opened is compressed, birth times: ${births}; older files stay unread`, async t => {
    if (births !== 'kept') hideBirthTimes(t, ({ ctimeNs }) => (births === 'zero' ? 0n : ctimeNs!))
    t.teardown(guardBy(fileSystems))
    const dir = testFolder(t, { 'app.log.2.gz': gzipSync(asText(numbered(0, 20, 'old'))) })
    await laterFiles(dir)
    const path = join(dir, 'app.log')
    writeFileSync(path, asText(one))
    const { end } = fail(t, 'EACCES', ['openSync'], file => file === path)
    const run = await start({ include: [path] }, undefined, ahead())
    await run.scanned(2)
    writeFileSync(`${path}.1.gz`, gzipSync(asText(one)))
    writeFileSync(join(dir, 'next'), asText(two))
    renameSync(join(dir, 'next'), path)
    end()
    await settled(run, 20)
    await run.scanned(3)
    t.same(run.out.texts().sort(), [...one, ...two])
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    await run.stop()
  })

t.test(
  'a file that was truncated during a stop, and whose first bytes cannot be read: it is not left open',
  async t => {
    const dir = testFolder(t, { 'app.log': '' })
    const path = join(dir, 'app.log')
    const options = { include: [join(dir, '*.log')] }
    const first = await start(options)
    first.out.hold = true
    appendFileSync(path, asText(numbered(0, 10)))
    await settled(first, 10)
    await first.stop()
    writeFileSync(path, 'new\n')
    const { ino } = statSync(path)
    let calls = 0
    const opened = fail(t, 'EIO', ['openSync'], file => file === path && ++calls === 1)
    const { end } = fail(t, 'EIO', READS, fd => fstat(fd).ino === ino)
    const run = await start(options, first.checkpoints, ahead())
    await run.scanned(3)
    end()
    opened.end()
    await settled(run, 1)
    t.same(run.out.texts(), ['new'])
    await run.stop()
    const open = readdirSync('/proc/self/fd').map(fd => orNone(() => readlinkSync(`/proc/self/fd/${fd}`)))
    t.notOk(open.includes(path))
  },
)

for (const isCompressed of [true, false])
  t.test(
    `a file is truncated within a line, its ${isCompressed ? 'compressed' : 'plain'} copy cannot be opened at first`,
    async t => {
      const lines = numbered(0, 20)
      const dir = testFolder(t, { 'app.log': `${asText(lines)}hal` })
      const path = join(dir, 'app.log')
      const copy = isCompressed ? `${path}.1.gz` : `${path}.1`
      const run = await start({ include: [join(dir, '*.log')], partial_line_timeout: '1h' })
      await run.read(path)
      await laterFiles(dir)
      const bytes = Buffer.from(`${asText(lines)}half\nlast\n`)
      writeFileSync(join(dir, 'next'), isCompressed ? gzipSync(bytes) : bytes)
      const { end } = fail(t, 'EACCES', ['openSync'], file => file === copy)
      renameSync(join(dir, 'next'), copy)
      writeFileSync(path, 'new\n')
      await run.scanned(5)
      t.notOk(run.out.texts().includes('hal'), 'the line comes in one part')
      end()
      await settled(run, 23)
      t.same(run.out.texts().sort(), [...lines, 'half', 'last', 'new'].sort())
      await run.stop()
    },
  )

t.test('without birth times, a compressed file gets the inode of an empty file that was rotated unseen', async t => {
  hideBirthTimes(t)
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const run = await start({ include: [join(dir, '*.log*')], max_open_files: 1 })
  await settled(run, 10)
  await laterFiles(dir)
  rotate(path, [])
  rotate(path, two)
  await settled(run, 20)
  await run.scanned(2)
  // It is overwritten, as if it were a new file.
  writeFileSync(`${path}.1`, gzipSync(asText(three)))
  renameSync(`${path}.1`, `${path}.3.gz`)
  await run.scanned(5)
  appendFileSync(path, 'last\n')
  await until('the last line', () => run.out.texts().includes('last'))
  const wanted = [...one, ...two, ...three, 'last']
  t.same(
    run.out.texts().filter(text => !wanted.includes(text)),
    [],
  )
  await run.stop()
})

t.test('a file that was renamed during a stop cannot be opened, and two files get its name: all are read', async t => {
  refuseWatches(t)
  const { path, options, checkpoints } = await readBefore(t, one)
  appendFileSync(path, 'more\n')
  renameSync(path, `${path}.1`)
  const { ino } = statSync(`${path}.1`)
  const opened = fail(t, 'EIO', ['openSync'], file => fs.existsSync(String(file)) && statSync(String(file)).ino === ino)
  const run = await start(options, checkpoints)
  await run.scanned(4)
  renameSync(`${path}.1`, `${path}.2`)
  writeFileSync(`${path}.1`, asText(two))
  writeFileSync(path, asText(three))
  await settled(run, 20)
  opened.end()
  await settled(run, 21)
  t.same(run.out.texts().sort(), ['more', ...two, ...three].sort())
  await run.stop()
})

for (const births of ['kept', 'hidden'] as const)
  t.test(`a file is overwritten during a stop, and renamed before it is opened, birth times: ${births}`, async t => {
    if (births === 'hidden') hideBirthTimes(t)
    refuseWatches(t)
    const { path, options, checkpoints } = await readBefore(t, one)
    writeFileSync(path, asText([...two, ...two]))
    const { ino } = statSync(path)
    const isIt = (file: unknown) => fs.existsSync(String(file)) && statSync(String(file)).ino === ino
    const opened = fail(t, 'EIO', ['openSync'], isIt)
    const run = await start(options, checkpoints)
    await run.scanned(3)
    renameSync(path, `${path}.1`)
    writeFileSync(path, asText(three))
    await settled(run, 10)
    await laterFiles(dirname(path))
    await run.scanned(5)
    opened.end()
    await settled(run, 30)
    t.same(run.out.texts().sort(), [...two, ...two, ...three].sort())
    await run.stop()
  })

t.test('without birth times, a file gets the inode and size of a released one, and is rotated unseen', async t => {
  hideBirthTimes(t)
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const run = await start({ include: [path], rotate_wait: '10ms' })
  await settled(run, 10)
  rotate(path, two)
  await settled(run, 20)
  await until('the first one to be released', () => run.value('sluice_files_watched') === 1)
  await laterFiles(dir)
  renameSync(path, `${path}.2`)
  // It is overwritten, as if it were a new file.
  const other = one.map(line => line.replace('one', 'uno'))
  writeFileSync(`${path}.1`, asText(other))
  writeFileSync(path, asText(three))
  await settled(run, 40)
  t.same(run.out.texts().sort(), [...one, ...two, ...other, ...three].sort())
  await run.stop()
})

t.test('without birth times, a file that was opened empty and never read is read from its copy', async t => {
  hideBirthTimes(t)
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': '' })
  const path = join(dir, 'app.log')
  const { ino } = statSync(path)
  const run = await start({ include: [join(dir, '*.log')] }, undefined, ahead())
  await run.scanned(2)
  const isIt = (fd: unknown) => orNone(() => fstat(fd).ino) === ino
  const dead = new Set<unknown>(readdirSync('/proc/self/fd').map(Number).filter(isIt))
  fail(t, 'ESTALE', ['fstatSync', ...READS], fd => dead.has(fd) && isIt(fd))
  compress(path, one, two)
  await settled(run, 20)
  t.same(run.out.texts().sort(), [...one, ...two].sort())
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

t.test('a copy that cannot be opened during two runs: its rest does not count as lost, and is read', async t => {
  const { path, options, checkpoints } = await readBefore(t, one)
  let run = await start(options, checkpoints)
  run.out.hold = true
  appendFileSync(path, asText(two))
  await settled(run, 10)
  await run.stop()
  compress(path, [], three)
  const { end } = fail(t, 'EACCES', ['openSync'], file => file === `${path}.1.gz`)
  for (const lines of [10, 0]) {
    run = await start(options, run.checkpoints, ahead())
    await settled(run, lines)
    await run.scanned(3)
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    await run.stop()
    await laterFiles(dirname(path))
  }
  end()
  run = await start(options, run.checkpoints, ahead())
  await settled(run, 10)
  t.same(run.out.texts(), two)
  await run.stop()
})

t.test('a file is truncated unread, and its compressed copy cannot be read on at first: no line is torn', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 20)) })
  const path = join(dir, 'app.log')
  const time = ahead()
  const run = await start({ include: [path] }, undefined, time)
  await settled(run, 20)
  await laterFiles(dir)
  const copy = join(dir, 'next')
  writeFileSync(copy, gzipSync(asText(numbered(0, 1000))))
  // The read of what is behind these bytes.
  const failed = failReads(t, copy, position => position === 8192)
  renameSync(copy, `${path}.1.gz`)
  writeFileSync(path, 'new\n')
  await until('it to fail', () => failed() > 0)
  await run.scanned(3)
  for (let i = 0; i < 3; i++) {
    time.ms += 2000
    await run.scanned(2)
  }
  await settled(run, 1001)
  t.same(run.out.texts().sort(), [...numbered(0, 1000), 'new'].sort())
  await run.stop()
})

t.test('a file cannot be opened, and two get its name while its folder cannot be listed: all are read', async t => {
  refuseWatches(t)
  const { dir, path, options, checkpoints } = await readBefore(t, one, '*.log')
  appendFileSync(path, 'more\n')
  renameSync(path, `${path}.1`)
  const { ino } = statSync(`${path}.1`)
  const opened = fail(t, 'EIO', ['openSync'], file => fs.existsSync(String(file)) && statSync(String(file)).ino === ino)
  const run = await start(options, checkpoints)
  await run.scanned(4)
  const listed = fail(t, 'EACCES', ['readdirSync'], folder => folder === dir)
  renameSync(`${path}.1`, `${path}.2`)
  writeFileSync(`${path}.1`, asText(two))
  writeFileSync(path, asText(three))
  await laterFiles(dir)
  await run.scanned(5)
  listed.end()
  await settled(run, 20)
  opened.end()
  await settled(run, 21)
  t.same(run.out.texts().sort(), ['more', ...two, ...three].sort())
  await run.stop()
})

t.test('a file that cannot be opened is renamed once more: what had its name in between is read', async t => {
  refuseWatches(t)
  const { path, options, checkpoints } = await readBefore(t, one, '*.log')
  appendFileSync(path, 'more\n')
  renameSync(path, `${path}.1`)
  const { ino } = statSync(`${path}.1`)
  const opened = fail(t, 'EIO', ['openSync'], file => fs.existsSync(String(file)) && statSync(String(file)).ino === ino)
  const run = await start(options, checkpoints)
  await run.scanned(4)
  renameSync(`${path}.1`, `${path}.2`)
  writeFileSync(`${path}.1`, asText(two))
  await settled(run, 10)
  opened.end()
  await settled(run, 11)
  t.same(run.out.texts(), [...two, 'more'])
  await run.stop()
})

t.test('a file that could never be opened is truncated during a stop: its copy with its times is read', async t => {
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  await laterFiles(dir)
  const open = () => fail(t, 'EACCES', ['openSync'], file => file === path)
  const before = open()
  const first = await start({ include: [path] })
  await first.scanned(2)
  await first.stop()
  before.end()
  copyFileSync(path, `${path}.1`)
  const { atime, mtime } = statSync(path)
  utimesSync(`${path}.1`, atime, mtime)
  truncateSync(path)
  const { end } = open()
  const run = await start({ include: [path] }, first.checkpoints, ahead())
  await settled(run, 10)
  end()
  appendFileSync(path, asText(two))
  await settled(run, 20)
  t.same(run.out.texts(), [...one, ...two])
  await run.stop()
})

t.test('without birth times, a file that could not be read is compressed during a stop: its copy is read', async t => {
  hideBirthTimes(t)
  const dir = testFolder(t, { 'app.log': asText(one) })
  const path = join(dir, 'app.log')
  const { ino, atime, mtime } = statSync(path)
  await laterFiles(dir)
  const { end } = fail(t, 'EIO', READS, fd => orNone(() => fstat(fd).ino) === ino)
  const first = await start({ include: [path] })
  await first.scanned(2)
  await first.stop()
  end()
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
  utimesSync(`${path}.1.gz`, atime, mtime)
  writeFileSync(join(dir, 'next'), asText(two))
  renameSync(join(dir, 'next'), path)
  const run = await start({ include: [path] }, first.checkpoints, ahead())
  await settled(run, 20)
  t.same(run.out.texts().sort(), [...one, ...two])
  await run.stop()
})

t.test('a compressed copy cannot be read for a while when it is compared: no line is torn or lost', async t => {
  const before = asText(numbered(0, 1000))
  const dir = testFolder(t, { 'app.log': `${before}begun ` })
  const path = join(dir, 'app.log')
  const time = new TestTime()
  const run = await start({ include: [path] }, undefined, time)
  await settled(run, 1000)
  await run.read(path)
  await laterFiles(dir)
  const copy = join(dir, 'next')
  writeFileSync(copy, gzipSync(`${before}begun and ended\n${asText(numbered(1000, 1010))}`))
  // The first bytes can be read.
  const failed = failReads(t, copy, position => position !== 0)
  renameSync(copy, `${path}.1.gz`)
  writeFileSync(path, 'new\n')
  await until('it to fail', () => failed() > 1)
  await run.scanned(3)
  for (let i = 0; i < 3; i++) {
    time.ms += 2000
    await run.scanned(2)
  }
  await settled(run, 1012)
  t.same(run.out.texts().sort(), [...numbered(0, 1010), 'begun and ended', 'new'].sort())
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

t.test(
  'a renamed file cannot be read for longer than rotate_wait: its rest is read, and does not count as lost',
  async t => {
    const dir = testFolder(t, { 'app.log': asText(one) })
    const path = join(dir, 'app.log')
    const time = new TestTime()
    const run = await start({ include: [path], rotate_wait: '30s' }, undefined, time)
    await settled(run, 10)
    const { ino } = statSync(path)
    const { end } = fail(t, 'EIO', READS, fd => orNone(() => fstat(fd).ino) === ino)
    appendFileSync(path, asText(two))
    renameSync(path, `${path}.1`)
    await run.scanned(2)
    time.ms += 60_000
    await run.scanned(3)
    end()
    await settled(run, 20)
    t.same(run.out.texts(), [...one, ...two])
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    await run.stop()
  },
)

t.test('a file that cannot be examined is copied in two parts, and truncated: no line is torn or lost', async t => {
  const { dir, path, checkpoints } = await readBefore(t, numbered(0, 100))
  const bytes = Buffer.from(asText(numbered(0, 150)))
  writeFileSync(path, bytes)
  const { end } = fail(t, 'EIO', ['statSync'], file => file === path)
  writeFileSync(`${path}.1`, bytes.subarray(0, 3000))
  const run = await start({ include: [join(dir, '*')] }, checkpoints, ahead())
  await run.scanned(3)
  appendFileSync(`${path}.1`, bytes.subarray(3000))
  writeFileSync(path, 'after\n')
  await run.scanned(3)
  end()
  await settled(run, 51)
  t.same(run.out.texts(), [...numbered(100, 150), 'after'])
  await run.stop()
})

t.test(
  'a file was deleted during a stop, and its folder cannot be listed at the start: its rest counts as lost',
  async t => {
    const dir = testFolder(t, { 'app.log': '' })
    const path = join(dir, 'app.log')
    const options = { include: [join(dir, '*.log')] }
    const first = await start(options)
    first.out.hold = true
    appendFileSync(path, asText(one))
    await settled(first, 10)
    await first.stop()
    rmSync(path)
    const { end } = fail(t, 'EIO', ['readdirSync'], folder => folder === dir)
    const run = await start(options, first.checkpoints)
    await run.scanned(3)
    t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
    end()
    await until('the loss to be counted', () => (run.value('sluice_file_lost_bytes_total') ?? 0) > 0)
    await run.stop()
  },
)
