import fs, {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { sleep, systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { hideBirthTimes, refuseWatches } from '../../../support/habits-of-disks.js'
import { arrived, laterFiles, MemoryCheckpoints, Receiver, settled, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

/** Resolves to what a run saved that read the first line and was stopped. */
async function readBefore(options: Parameters<typeof tail>[0]): Promise<MemoryCheckpoints> {
  const run = await tail(options)
  await settled(run, 1)
  await run.stop()
  return run.checkpoints
}

const CALLS = ['statSync', 'openSync', 'fstatSync', 'readdirSync'] as const
type Call = (typeof CALLS)[number]

/**
 * Acts once, when the source makes the last of these calls, after the others, about the file at `path`, its descriptor
 * or its folder: before it opens a file or lists a folder, after any other call.
 */
function atCall(t: Test, wanted: Call[], path: string, act: () => void): void {
  const calls = fs as unknown as Record<Call, (...args: unknown[]) => unknown>
  const real = Object.fromEntries(CALLS.map(name => [name, calls[name]])) as typeof calls
  const undo = () => Object.assign(calls, real)
  t.teardown(undo)
  const about: unknown[] = [path, dirname(path)]
  const left = [...wanted]
  for (const name of CALLS) {
    calls[name] = (...args) => {
      const isNext = name === left[0] && about.includes(args[0])
      if (isNext) left.shift()
      const isLast = isNext && left.length === 0
      if (isLast) undo()
      const isBefore = name === 'openSync' || name === 'readdirSync'
      if (isLast && isBefore) act()
      const result = real[name](...args)
      if (isNext && name === 'openSync') about.push(result)
      if (isLast && !isBefore) act()
      return result
    }
  }
}

t.test('a file that came and went is compressed while its folder is listed, its copy first: it is read', async t => {
  const dir = testFolder(t, { 'app.log': 'the first line of the first file\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path] })
  await settled(run, 1)
  const calls = fs as unknown as Record<'statSync' | 'readdirSync', (...args: unknown[]) => unknown>
  const { statSync: stat, readdirSync: list } = calls
  t.teardown(() => Object.assign(calls, { statSync: stat, readdirSync: list }))
  calls.readdirSync = (...args) => {
    const names = list(...args) as (string | { name: string })[]
    return names.sort((a, b) => (String(Object(a).name ?? a) < String(Object(b).name ?? b) ? 1 : -1))
  }
  calls.statSync = (...args) => {
    const result = stat(...args)
    if (args[0] === `${path}.1.gz` && fs.existsSync(`${path}.1`)) {
      writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(`${path}.1`)))
      rmSync(`${path}.1`)
    }
    return result
  }
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, 'a line of the second file\n')
  writeFileSync(`${path}.1.gz`, '')
  writeFileSync(path, 'a line of the third file\n')
  await settled(run, 3)
  t.same(run.out.texts().slice(1).sort(), ['a line of the second file', 'a line of the third file'])
  await run.stop()
})

t.test('a vacant name is taken and given up again between two scans, and its file is compressed', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': 'the first line of the first file\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [join(dir, '*.log*')], exclude: ['*.gz'] })
  await settled(run, 1)
  renameSync(path, `${path}.1`)
  await run.scanned(3)
  await laterFiles(dir)
  renameSync(`${path}.1`, `${path}.3`)
  writeFileSync(`${path}.2.gz`, gzipSync('a line of the second file\n'))
  await settled(run, 2)
  t.same(run.out.texts(), ['the first line of the first file', 'a line of the second file'])
  await run.stop()
})

t.test('a vacant name is taken and given up again, and its former file keeps its name', async t => {
  const dir = testFolder(t, { 'app.log': 'the first line of the first file\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], rotate_wait: '1h' })
  await settled(run, 1)
  renameSync(path, `${path}-20260101`)
  await run.scanned(3)
  await laterFiles(dir)
  writeFileSync(path, 'a line of the second file\n')
  renameSync(path, `${path}-20260102`)
  await settled(run, 2)
  t.same(run.out.texts(path), ['the first line of the first file', 'a line of the second file'])
  await run.stop()
})

t.test('a name that passes on between the stat and the open gives the new file no size', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path] })
  await settled(run, 1)
  atCall(t, ['statSync'], path, () => {
    renameSync(path, `${path}.1`)
    writeFileSync(path, '3\n')
  })
  renameSync(path, `${path}.2`)
  writeFileSync(path, '2, which is much longer\n')
  await settled(run, 3)
  t.same(run.out.texts().sort(), ['1', '2, which is much longer', '3'])
  t.equal(run.value('sluice_file_truncations_total'), 0)
  t.same(
    run.log.filter(({ level }) => level >= 40),
    [],
  )
  await run.stop()
})

for (const listings of [1, 2, 3])
  t.test(`a batch comes back while the copy of its truncated file is compared, at listing ${listings}`, async t => {
    const lines = Array.from({ length: 100 }, (_, i) => `line ${i}, of some length`)
    const path = join(testFolder(t, { 'app.log': `${lines.join('\n')}\n` }), 'app.log')
    const run = await tail({ include: [path] })
    run.out.hold = true
    await settled(run, 100)
    copyFileSync(path, `${path}.1`)
    appendFileSync(path, 'late\n')
    await settled(run, 101)
    atCall(t, Array(listings).fill('readdirSync'), path, () => run.out.settle('errored'))
    truncateSync(path)
    await t.rejects(run.run)
    run.out.hold = false
    void run.again()
    await settled(run, 101 + 100)
    t.same(run.out.texts().slice(101), lines)
    await run.stop()
  })

t.test('a new file that grows while it is opened after a start was not truncated', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const checkpoints = await readBefore(options)
  renameSync(path, `${path}.1`)
  writeFileSync(path, '2\n')
  atCall(t, ['openSync', 'fstatSync'], path, () => appendFileSync(path, '3\n'))
  const run = await tail(options, checkpoints)
  await settled(run, 2)
  t.same(run.out.texts(), ['2', '3'])
  t.same(run.out.backlog, ['2'], 'what came after the start is not backlog')
  t.equal(run.value('sluice_file_truncations_total'), 0)
  t.same(
    run.log.filter(({ level }) => level >= 40),
    [],
  )
  await run.stop()
})

/** Rotates by numbers as logrotate does, and writes the next line. */
function rotation(dir: string): { path: string; rotate: () => void } {
  const path = join(dir, 'app.log')
  let line = 1
  const rotate = () => {
    for (let i = line - 1; i >= 1; i--) renameSync(`${path}.${i}`, `${path}.${i + 1}`)
    renameSync(path, `${path}.1`)
    writeFileSync(path, `${++line}\n`)
  }
  return { path, rotate }
}

const numbers = (to: number) => Array.from({ length: to }, (_, i) => String(i + 1))

/** Compresses as gzip does. */
function compress(path: string): void {
  const { atime, mtime } = statSync(path)
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)))
  utimesSync(`${path}.gz`, atime, mtime)
  rmSync(path)
}

/** The times of files move on with the ticks of the kernel. */
const tick = () => sleep(20)

for (const include of ['app.log', 'app.log*']) {
  t.test(`rotations between two looks keep their order under ${include}`, async t => {
    const dir = testFolder(t, { 'app.log': '1\n' })
    const { path, rotate } = rotation(dir)
    const run = await tail({ include: [join(dir, include)], scan_interval: '10s' })
    await arrived(run, 1)
    appendFileSync(path, 'the rest\n')
    for (let i = 0; i < 3; i++) rotate()
    await arrived(run, 5)
    t.same(run.out.texts(path), ['1', 'the rest', '2', '3', '4'])
    await run.stop()
  })
}

t.test('rotations while the last one is looked into keep their order', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const { path, rotate } = rotation(dir)
  const run = await tail({ include: [path], scan_interval: '10s' })
  await arrived(run, 1)
  atCall(t, ['openSync', 'readdirSync'], path, () => {
    rotate()
    rotate()
  })
  rotate()
  await arrived(run, 4)
  t.same(run.out.texts(path), ['1', '2', '3', '4'])
  await run.stop()
})

t.test('rotations while those before the start are looked for keep their order', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const { path, rotate } = rotation(dir)
  const options = { include: [path], scan_interval: '100ms' }
  const checkpoints = await readBefore(options)
  for (let i = 0; i < 2; i++) {
    rotate()
    await tick()
  }
  let left = 2
  const disturb = () => {
    rotate()
    if (--left > 0) atCall(t, ['openSync', 'readdirSync'], path, disturb)
  }
  atCall(t, ['openSync', 'readdirSync'], path, disturb)
  const run = await tail(options, checkpoints)
  await arrived(run, 4)
  t.same(run.out.texts(path), ['2', '3', '4', '5'])
  t.equal(left, 0)
  await run.stop()
})

t.test('a truncation while the copy of the one before the start is looked for keeps their order', async t => {
  const path = join(testFolder(t, { 'app.log': '1\n' }), 'app.log')
  const options = { include: [path], scan_interval: '100ms' }
  const checkpoints = await readBefore(options)
  const truncate = (next: string) => {
    copyFileSync(path, `${path}.1`)
    truncateSync(path)
    appendFileSync(path, next)
  }
  truncate('2\n')
  await tick()
  atCall(t, ['openSync'], `${path}.1`, () => {
    compress(`${path}.1`)
    renameSync(`${path}.1.gz`, `${path}.2.gz`)
    truncate('3\n')
  })
  const run = await tail(options, checkpoints)
  await arrived(run, 2)
  t.same(run.out.texts(), ['2', '3'])
  await run.stop()
})

t.test('copies that are renamed before their turn still come before newer files', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const { path, rotate } = rotation(dir)
  const options = { include: [path], scan_interval: '100ms' }
  const checkpoints = await readBefore(options)
  for (let i = 0; i < 4; i++) {
    rotate()
    await tick()
  }
  for (const i of [2, 3]) compress(`${path}.${i}`)
  // The first time it is examined, the second time it is read.
  atCall(t, ['openSync', 'openSync'], `${path}.2.gz`, () => {
    for (const i of [3, 2]) renameSync(`${path}.${i}.gz`, `${path}.${i + 1}.gz`)
    renameSync(`${path}.1`, `${path}.2`)
    renameSync(path, `${path}.1`)
    writeFileSync(path, '6\n')
  })
  const run = await tail(options, checkpoints)
  await settled(run, 5)
  t.same(run.out.texts(path), ['2', '3', '4', '5', '6'])
  await run.stop()
})

t.test('what is still written to a renamed file comes before what the new one gets after it', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '10s' })
  await arrived(run, 1)
  const { send } = run.out
  // Both are written before the source finds that it has read the new file to its end.
  run.out.send = batch => {
    const sent = send.call(run.out, batch)
    if (run.out.lines.length === 2) {
      appendFileSync(`${path}.1`, '3\n')
      appendFileSync(path, '4\n')
    }
    return sent
  }
  renameSync(path, `${path}.1`)
  writeFileSync(path, '2\n')
  await arrived(run, 4)
  t.same(run.out.texts(path), ['1', '2', '3', '4'])
  await run.stop()
})

t.test(
  'what is still written to a renamed file that was closed comes before what the new one gets after it',
  async t => {
    const dir = testFolder(t, { 'app.log': '1\n' })
    const { path, rotate } = rotation(dir)
    const options = { include: [path], scan_interval: '10s', rotate_wait: '1 Hours', max_open_files: 1 }
    const run = await tail(options)
    await arrived(run, 1)
    // The source finds the second file under its next name, so that it may close it.
    for (let i = 0; i < 2; i++) rotate()
    await arrived(run, 3)
    appendFileSync(`${path}.1`, '4\n')
    appendFileSync(path, '5\n')
    await arrived(run, 5)
    appendFileSync(`${path}.1`, '6\n')
    renameSync(`${path}.1`, `${path}.9`)
    appendFileSync(path, '7\n')
    await arrived(run, 7)
    rmSync(`${path}.9`)
    await run.scanned(2)
    const scans = () => run.value('sluice_file_scans_total')!
    const before = scans()
    for (let i = 8; i <= 12; i++) {
      appendFileSync(path, `${i}\n`)
      await arrived(run, i)
    }
    t.ok(scans() < before + 5, 'lines do not wait for a search for the deleted file')
    t.same(run.out.texts(path), numbers(12))
    await run.stop()
  },
)

t.test('what is written to a file that was renamed empty between two looks comes before the file after it', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '10s' })
  await arrived(run, 1)
  renameSync(path, `${path}.2`)
  writeFileSync(path, '')
  renameSync(path, `${path}.1`)
  writeFileSync(path, '')
  await run.scanned(2)
  appendFileSync(`${path}.1`, '2\n')
  appendFileSync(path, '3\n')
  await arrived(run, 3)
  t.same(run.out.texts(path), numbers(3))
  await run.stop()
})

t.test('an empty file beside an older one is a copy that is being made', async t => {
  const content = `${'1'.repeat(100)}\n`
  const dir = testFolder(t, { 'app.log': content })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '100ms' })
  await arrived(run, 1)
  writeFileSync(`${path}.1`, '')
  await run.scanned(2)
  writeFileSync(`${path}.1`, content)
  await run.scanned(2)
  truncateSync(path)
  appendFileSync(path, '2\n')
  await until('the last line', () => run.out.texts().includes('2'))
  t.equal(run.out.lines.length, 2)
  await run.stop()
})

t.test('what was still written to a file that was compressed unseen comes before the file after it', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const checkpoints = await readBefore(options)
  rmSync(path)
  writeFileSync(path, '2\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, '')
  await tick()
  appendFileSync(`${path}.1`, '3\n')
  for (let i = 0; i < 5; i++) await tick()
  appendFileSync(path, '4\n')
  const { atime, mtime } = statSync(`${path}.1`)
  writeFileSync(`${path}.2.gz`, gzipSync(readFileSync(`${path}.1`)))
  utimesSync(`${path}.2.gz`, atime, mtime)
  renameSync(path, `${path}.1`)
  writeFileSync(path, '5\n')
  const run = await tail(options, checkpoints)
  await settled(run, 4)
  t.same(run.out.texts(), ['2', '3', '4', '5'])
  await run.stop()
})

t.test('files of the same size that were compressed just now do not hold the ones that took their names', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const wall = systemClock.wall()
  // Time stands still, so what was compressed remains new.
  const clock = { now: systemClock.now, after: systemClock.after, wall: () => wall }
  const run = await tail({ include: [path] }, new MemoryCheckpoints(), new Receiver(), clock)
  await arrived(run, 1)
  for (const line of [2, 4]) {
    appendFileSync(path, `${line}\n`)
    if (line > 2) renameSync(`${path}.1.gz`, `${path}.2.gz`)
    writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
    rmSync(path)
    writeFileSync(path, `${line + 1}\n`)
    await settled(run, line + 1)
  }
  t.same(run.out.texts(), ['1', '2', '3', '4', '5'])
  await run.stop()
})

for (const order of ['a.log, then b.log', 'b.log, then a.log']) {
  t.test(`an older file comes first from its compressed copy, although names were swapped: ${order}`, async t => {
    const dir = testFolder(t, { 'a.log': 'older 1\n', 'b.log': 'b 1\n' })
    const [a, b] = [join(dir, 'a.log'), join(dir, 'b.log')]
    const options = { include: order.startsWith('a') ? [a, b] : [b, a] }
    const first = await tail(options)
    await settled(first, 2)
    renameSync(a, `${a}.1`)
    writeFileSync(a, 'newer 1\n')
    await settled(first, 3)
    await first.stop()
    appendFileSync(`${a}.1`, 'older 2\n')
    writeFileSync(`${a}.1.gz`, gzipSync(readFileSync(`${a}.1`)))
    rmSync(`${a}.1`)
    appendFileSync(a, 'newer 2\n')
    renameSync(a, `${a}.swapped`)
    renameSync(b, a)
    renameSync(`${a}.swapped`, b)
    const next = await tail(options, first.checkpoints)
    await settled(next, 2)
    t.same(next.out.texts(), ['older 2', 'newer 2'])
    await next.stop()
  })
}

for (const [title, isWatched, isCompressed] of [
  ['plain', true, false],
  ['compressed', true, true],
  ['not watched', false, false],
] as const) {
  t.test(`a file that came and went between two looks is read while its name is vacant: ${title}`, async t => {
    if (!isWatched) refuseWatches(t)
    const dir = testFolder(t, { 'app.log': '1\n' })
    const path = join(dir, 'app.log')
    const run = await tail({ include: [path] })
    await settled(run, 1)
    await run.scanned(4)
    renameSync(path, `${path}.2`)
    writeFileSync(path, '2\n')
    renameSync(path, `${path}.1`)
    if (isCompressed) compress(`${path}.1`)
    await settled(run, 2)
    t.same(run.out.texts(path), ['1', '2'])
    await run.stop()
  })
}

for (const [title, isWatched, next] of [
  ['at once', true, undefined],
  ['not watched, when another file has the name', false, '3'],
  ['not watched, when the file that had the name is released', false, undefined],
] as const) {
  t.test(`a file that came and went after its name was vacant for long is read: ${title}`, async t => {
    if (!isWatched) refuseWatches(t)
    const dir = testFolder(t, { 'app.log': '1\n' })
    const path = join(dir, 'app.log')
    const time = new TestTime()
    const run = await tail({ include: [path] }, undefined, undefined, time)
    await settled(run, 1)
    renameSync(path, `${path}.2`)
    await run.scanned(5)
    writeFileSync(path, '2\n')
    renameSync(path, `${path}.1`)
    if (!isWatched) await run.scanned(5)
    if (next) writeFileSync(path, `${next}\n`)
    else if (!isWatched) time.ms += 3_600_000
    const all = ['1', '2', ...(next ? [next] : [])]
    await settled(run, all.length)
    t.same(run.out.texts(path), all)
    await run.stop()
  })
}

t.test('a file that came and went while nothing ran, and its name was vacant before and after, is read', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], rotate_wait: '100ms' })
  await settled(run, 1)
  renameSync(path, `${path}.2`)
  await until('the file to be released', () => run.value('sluice_files_watched') === 0)
  await run.stop()
  await laterFiles(dir)
  writeFileSync(path, '2\n')
  renameSync(path, `${path}.1`)
  rmSync(`${path}.2`)
  const next = await tail({ include: [path] }, run.checkpoints, run.out)
  await settled(next, 2)
  t.same(next.out.texts(path), ['1', '2'])
  await next.stop()
})

t.test('a file that is renamed while the stop looks for it keeps its unfinished line', async t => {
  const dir = testFolder(t, { 'app.log': '1\nhal' })
  const run = await tail({ include: [join(dir, '*.log')], scan_interval: '1h' })
  await until('the line came', () => run.out.lines.length === 1)
  const { readdirSync } = fs
  t.teardown(() => Object.assign(fs, { readdirSync }))
  let at = join(dir, 'app.log')
  let renames = 0
  fs.readdirSync = ((folder: string, ...more: []) => {
    const names = readdirSync(folder, ...more)
    if (folder === dir && renames < 2) renameSync(at, (at = join(dir, `app.log.${++renames}`)))
    return names
  }) as typeof readdirSync
  renameSync(at, (at = join(dir, 'app.log.0')))
  await run.stop()
  t.equal(renames, 2)
  t.same(run.out.texts(), ['1'])
})

t.test('without birth times, what is written to a file that was renamed empty while nothing ran is read', async t => {
  hideBirthTimes(t)
  const path = join(testFolder(t, { 'app.log': '1\n' }), 'app.log')
  const options = { include: [path] }
  const checkpoints = await readBefore(options)
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, '')
  writeFileSync(path, '')
  const run = await tail(options, checkpoints)
  await run.scanned(2)
  appendFileSync(`${path}.1`, '2\n')
  appendFileSync(path, '3\n')
  await settled(run, 2)
  t.same(run.out.texts(path), ['2', '3'])
  await run.stop()
})

const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `line number ${from + i}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

t.test('without birth times, a copy is compressed and another file gets its inode before a kill', async t => {
  hideBirthTimes(t)
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 100)), aside: {} })
  const [path, other, aside] = [join(dir, 'app.log'), join(dir, 'other.log'), join(dir, 'aside', 'file')]
  const options = { include: [path, other], rotate_wait: '1h' }
  const killed = await tail(options)
  await settled(killed, 100)
  killed.out.hold = true
  appendFileSync(path, asText(numbered(100, 200)))
  await arrived(killed, 200)
  copyFileSync(path, `${path}.1`)
  appendFileSync(path, 'not in the copy\n')
  await arrived(killed, 201)
  truncateSync(path)
  await until('the truncation', () => killed.value('sluice_file_truncations_total') === 1)
  await killed.scanned(3)
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(`${path}.1`)))
  renameSync(`${path}.1`, aside)
  await killed.scanned(3)
  writeFileSync(aside, 'another file\n')
  renameSync(aside, other)
  await settled(killed, 202)
  await killed.checkpoints.flush()
  await killed.kill()
  const next = await tail(options, killed.checkpoints)
  await settled(next, 101)
  t.same(next.out.texts(path), numbered(100, 200))
  await next.stop()
})

/** app.log.1 was renamed while it was empty, was found under this name, and is closed. An older file has its name. */
async function renamedEmpty(t: Test) {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': '1\n', next: '3\n' })
  const path = join(dir, 'app.log')
  const time = new TestTime()
  const run = await tail({ include: [path], max_open_files: 1, rotate_wait: '1h' }, undefined, undefined, time)
  await settled(run, 1)
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, '')
  await until('the empty file', () => run.value('sluice_files_watched') === 2)
  renameSync(join(dir, 'next'), path)
  await settled(run, 2)
  await run.scanned(3)
  return { path, run, time }
}

t.test('a file that was empty and closed is written, compressed and removed between two looks', async t => {
  const { path, run, time } = await renamedEmpty(t)
  appendFileSync(`${path}.1`, '2\n')
  compress(`${path}.1`)
  // The compressed file is complete.
  time.ms += 3000
  await settled(run, 3)
  t.same(run.out.texts(path), ['1', '3', '2'])
  await run.stop()
})

t.test('a file that was empty and closed is written after another file was compressed', async t => {
  const { path, run } = await renamedEmpty(t)
  compress(`${path}.2`)
  await run.scanned(3)
  appendFileSync(`${path}.1`, '2\n')
  await settled(run, 3)
  t.same(run.out.texts(path), ['1', '3', '2'])
  await run.stop()
})

t.test('a copy of a blocked file is compressed before a look, under a name that another file had', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 20)), 'app.log.1': 'older\n', 'busy.log': 'busy\n' })
  const path = join(dir, 'app.log')
  const time = new TestTime()
  const options = { include: [join(dir, '*')], exclude: ['*.gz'], rotate_wait: '1h' }
  const run = await tail(options, undefined, undefined, time)
  await settled(run, 22)
  let makeRoom = () => {}
  run.out.room = new Promise(resolve => (makeRoom = resolve))
  appendFileSync(join(dir, 'busy.log'), 'busy\n')
  await settled(run, 23)
  renameSync(`${path}.1`, `${path}.2`)
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  compress(`${path}.1`)
  // The compressed file is complete.
  time.ms += 3000
  await run.scanned(3)
  makeRoom()
  appendFileSync(path, 'after\n')
  await settled(run, 24)
  await run.scanned(3)
  t.same(run.out.texts(path), [...numbered(0, 20), 'after'])
  t.equal(run.out.lines.length, 24)
  await run.stop()
})
