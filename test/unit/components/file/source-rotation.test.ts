import fs, {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testFolder } from '../../../support/folder.js'
import { refuseWatches } from '../../../support/habits-of-disks.js'
import { Seeded } from '../../../support/seeded.js'
import {
  arrived,
  laterFiles,
  MemoryCheckpoints,
  pauseAtEachStat,
  Receiver,
  settled,
  TestTime,
  tail,
} from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const numbered = (from: number, to: number, more = '') =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}${more}`)
const asText = (lines: string[]) => lines.map(line => `${line}\n`).join('')

for (const include of ['app.log', 'app.log*']) {
  t.test(`rotation by rename under ${include}: both files to their end, each once`, async t => {
    const dir = testFolder(t, { 'app.log': asText(numbered(0, 3)) })
    const path = join(dir, 'app.log')
    const options = { include: [join(dir, include)], rotate_wait: '1 Hours', scan_interval: '50ms' }
    const time = new TestTime()
    const run = await tail(options, new MemoryCheckpoints(), new Receiver(), time)
    await settled(run, 3)
    const writer = openSync(path, 'a')
    renameSync(path, `${path}.1`)
    writeSync(writer, asText(numbered(3, 5)))
    await settled(run, 5)
    writeFileSync(path, asText(numbered(6, 8)))
    writeSync(writer, 'line 5\nunfinished')
    await settled(run, 8)
    t.same(run.out.texts(path).sort(), numbered(0, 8))
    t.equal(run.value('sluice_file_rotations_total'), 1)
    closeSync(writer)
    if (include === 'app.log') {
      time.ms += 3_600_000
      await until('the old file is let go', () => run.value('sluice_files_watched') === 1)
      t.equal(run.out.texts().at(-1), 'unfinished')
    }
    // Once more, through all names.
    renameSync(`${path}.1`, `${path}.2`)
    renameSync(path, `${path}.1`)
    writeFileSync(path, 'last\n')
    await until('the third file', () => run.out.texts().includes('last'))
    await run.scanned()
    const expected = [...numbered(0, 8), 'last', ...(include === 'app.log' ? ['unfinished'] : [])]
    t.same(run.out.texts().sort(), expected.sort())
    await run.stop()
    const next = await tail({ include: [join(dir, include)], follow: false }, run.checkpoints)
    await next.run
    t.same(next.out.texts(), include === 'app.log' ? [] : ['unfinished'], 'nothing comes twice')
  })
}

t.test('what is renamed in the midst of a backlog comes before what takes its place', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 50_000, ` ${'x'.repeat(80)}`)) })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  let go = () => {}
  out.room = new Promise(resolve => {
    go = resolve
  })
  const run = await tail({ include: [path], scan_interval: '20ms' }, new MemoryCheckpoints(), out)
  await until('the first batch', () => out.batches === 1)
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'new\n')
  await until('both files are known', () => run.value('sluice_files_watched') === 2)
  out.room = Promise.resolve()
  go()
  await settled(run, 50_001)
  t.equal(out.texts().at(-1), 'new')
  await run.stop()
})

for (const include of ['app.log', 'app.log*']) {
  t.test(`the last line before a rename comes before the new file under ${include}`, async t => {
    const dir = testFolder(t, { 'app.log': 'line 0\n' })
    const path = join(dir, 'app.log')
    const run = await tail({ include: [join(dir, include)], rotate_wait: '300ms', scan_interval: '10s' })
    await arrived(run, 1)
    for (let i = 1; i < 10; i += 2) {
      appendFileSync(path, `line ${i}\n`)
      renameSync(path, `${path}.${10 - i}`)
      writeFileSync(path, `line ${i + 1}\n`)
      await arrived(run, i + 2)
    }
    t.same(run.out.texts(path), numbered(0, 11))
    await run.stop()
  })
}

t.test('what was closed before it was renamed comes before what took its name', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [`${dir}/*`], max_open_files: 1 })
  await arrived(run, 1)
  writeFileSync(join(dir, 'b.log'), '2\n')
  await settled(run, 2)
  pauseAtEachStat(t)
  appendFileSync(path, '3\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, '4\n')
  await settled(run, 4)
  t.same(run.out.texts(), ['1', '2', '3', '4'])
  await run.stop()
})

t.test('what is still written to a file that was renamed before a stop comes before the new file', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  renameSync(path, `${path}.1`)
  writeFileSync(path, '2\n')
  await settled(first, 2)
  await first.stop()
  const run = await tail({ include: [path] }, first.checkpoints)
  await run.scanned()
  appendFileSync(`${path}.1`, '3\n')
  appendFileSync(path, '4\n')
  await until('the last line', () => run.out.texts().includes('4'))
  t.same(run.out.texts(), ['3', '4'])
  await run.stop()
})

t.test('files whose batches come back one after the other are read again in order', async t => {
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const out = new Receiver()
  out.hold = true
  // Each sweep looks at the renamed file first.
  const run = await tail({ include: [path, `${path}.1`] }, new MemoryCheckpoints(), out)
  await settled(run, 1)
  out.room = new Promise(() => {})
  renameSync(path, `${path}.1`)
  writeFileSync(path, '2\n')
  await arrived(run, 2)
  const [older, newer] = out.held.splice(0)
  newer!.ack.settle('errored')
  await t.rejects(run.run)
  out.hold = false
  out.room = Promise.resolve()
  const stat = fs.statSync
  const use = (statSync: unknown) => Object.assign(fs, { statSync })
  t.teardown(() => use(stat))
  use((...args: Parameters<typeof stat>) => {
    if (args[0] === path) {
      use(stat)
      older!.ack.settle('errored')
    }
    return stat(...args)
  })
  void run.again()
  await settled(run, 4)
  t.same(out.texts(), ['1', '2', '1', '2'])
  await run.stop()
})

t.test('a file that came and went while its name was vacant, and nobody saw it, is read after a restart', async t => {
  refuseWatches(t)
  const dir = testFolder(t, { 'app.log': '1\n' })
  const path = join(dir, 'app.log')
  const first = await tail({ include: [path] })
  await settled(first, 1)
  renameSync(path, `${path}.2`)
  await first.scanned(5)
  writeFileSync(path, '2\n')
  renameSync(path, `${path}.1`)
  await laterFiles(dir)
  await first.scanned(3)
  await first.stop()
  const next = await tail({ include: [path], follow: false }, first.checkpoints)
  await next.run
  t.same([...first.out.texts(), ...next.out.texts()], ['1', '2'])
})

t.test('a file deleted while it has more is read to its end', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 50_000)) })
  const path = join(dir, 'app.log')
  const content = readFileSync(path)
  const out = new Receiver()
  let go = () => {}
  out.room = new Promise(resolve => {
    go = resolve
  })
  const run = await tail({ include: [path], rotate_wait: '50ms', scan_interval: '20ms' }, new MemoryCheckpoints(), out)
  await until('the first batch', () => out.batches === 1)
  unlinkSync(path)
  await run.scanned()
  out.room = Promise.resolve()
  go()
  await until('it is let go', () => run.value('sluice_files_watched') === 0)
  t.ok(out.bytes(path).equals(content))
  await run.stop()
  t.same((run.checkpoints.document as { files: unknown[] }).files, [], 'what has no name is not remembered')
})

t.test('a deleted file is kept while a batch of it may come back', async t => {
  const dir = testFolder(t, { 'app.log': 'one\n' })
  const out = new Receiver()
  out.hold = true
  const options = { include: [join(dir, 'app.log')], rotate_wait: '20ms', scan_interval: '20ms' }
  const run = await tail(options, new MemoryCheckpoints(), out)
  await until('the batch', () => out.held.length === 1)
  unlinkSync(join(dir, 'app.log'))
  // Longer than rotate_wait.
  await run.scanned(3)
  t.equal(run.value('sluice_files_watched'), 1)
  out.settle('errored')
  await t.rejects(run.run)
  run.again().catch(() => {})
  await until('the batch again', () => out.held.length === 1)
  out.settle()
  await until('it is let go', () => run.value('sluice_files_watched') === 0)
  t.same(out.texts(), ['one', 'one'])
  await run.stop()
})

t.test('copy and truncate', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 100)) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '50ms' })
  const truncations = () => run.value('sluice_file_truncations_total')
  await settled(run, 100)
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  await until('the truncation is seen', () => truncations() === 1)
  appendFileSync(path, asText(numbered(100, 103)))
  await settled(run, 103)
  t.same(run.out.texts(), numbered(0, 103))

  truncateSync(path)
  appendFileSync(path, asText(numbered(103, 400)))
  await settled(run, 400)
  t.same(run.out.texts(), numbered(0, 400), 'grown beyond the old position at once')
  t.equal(truncations(), 2)

  const same = asText(numbered(400, 697))
  t.equal(same.length, statSync(path).size)
  writeFileSync(path, same)
  await settled(run, 697)
  t.same(run.out.texts(), numbered(0, 697), 'grown to exactly the old size')

  appendFileSync(path, 'torn')
  await run.read(path)
  truncateSync(path)
  appendFileSync(path, asText(numbered(697, 700)))
  await settled(run, 701)
  t.same(run.out.texts().slice(697), ['torn', ...numbered(697, 700)], 'an unfinished line is in no file any more')
  await run.stop()
})

t.test('copy and truncate with the same first lines', async t => {
  const header = 'h'.repeat(3000)
  const dir = testFolder(t, { 'app.log': `${header}\n${asText(numbered(0, 10))}` })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '50ms' })
  await settled(run, 11)
  writeFileSync(path, `${header}\n${asText(numbered(10, 40))}`)
  await settled(run, 42)
  t.same(run.out.texts().slice(11), [header, ...numbered(10, 40)])
  await run.stop()
  writeFileSync(path, `${header}\n${asText(numbered(40, 90))}`)
  const next = await tail({ include: [path] }, run.checkpoints)
  await settled(next, 51)
  t.same(next.out.texts(), [header, ...numbered(40, 90)], 'while nothing ran')
  t.equal(next.value('sluice_file_truncations_total'), 1)
  await next.stop()
})

t.test('truncated while it is to be read again from its beginning: what it holds now is remembered', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 200)) })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const run = await tail(options)
  run.out.hold = true
  await until('the first batch', () => run.out.held.length > 0)
  run.out.settle('errored')
  await t.rejects(run.run)
  truncateSync(path)
  writeFileSync(path, asText(numbered(500, 600)))
  run.out.hold = false
  void run.again()
  await settled(run, 300)
  await run.stop()
  const next = await tail(options, run.checkpoints)
  appendFileSync(path, 'last\n')
  await settled(next, 1)
  t.same(next.out.texts(), ['last'])
  await next.stop()
})

t.test('while nothing runs: rotation, truncation, and an inode that is given away again', async t => {
  const names = ['renamed', 'outside', 'truncated', 'shorter', 'reused', 'untouched', 'gone', 'small']
  const dir = testFolder(
    t,
    Object.fromEntries(names.map(name => [`${name}.log`, asText(numbered(0, 10, ` of ${name}`))])),
  )
  const at = (name: string) => join(dir, name)
  const include = [at('*.log'), at('*.log.1')]
  const run = await tail({ include })
  await settled(run, 80)
  await run.stop()
  const more = (name: string) => asText(numbered(10, 12, ` of ${name}`))
  const fresh = (name: string) => asText(numbered(0, 12, ` of new ${name}`))
  appendFileSync(at('renamed.log'), more('renamed'))
  renameSync(at('renamed.log'), at('renamed.log.1'))
  writeFileSync(at('renamed.log'), fresh('renamed'))
  appendFileSync(at('outside.log'), more('outside'))
  renameSync(at('outside.log'), at('outside.old'))
  writeFileSync(at('outside.log'), fresh('outside'))
  writeFileSync(at('truncated.log'), fresh('truncated'))
  writeFileSync(at('shorter.log'), 'short\n')
  unlinkSync(at('gone.log'))
  const inode = statSync(at('reused.log')).ino
  unlinkSync(at('reused.log'))
  writeFileSync(at('reused.log'), asText(numbered(0, 10, ' of reused')) + more('reused'))
  const reused = statSync(at('reused.log')).ino === inode
  const next = await tail({ include, rotate_wait: '50ms' }, run.checkpoints)
  await settled(next, 2 + 12 + 2 + 12 + 12 + 1 + 12)
  const texts = (name: string) => next.out.texts(at(name))
  t.same(texts('renamed.log'), [...numbered(10, 12, ' of renamed'), ...numbered(0, 12, ' of new renamed')])
  t.same(texts('renamed.log.1'), [], 'its lines keep the name they were written under')
  t.same(texts('outside.log'), [...numbered(10, 12, ' of outside'), ...numbered(0, 12, ' of new outside')])
  t.same(texts('truncated.log'), numbered(0, 12, ' of new truncated'))
  t.same(texts('shorter.log'), ['short'])
  t.same(texts('reused.log'), numbered(0, 12, ' of reused'), reused ? 'the inode was reused' : 'another inode')
  t.same(texts('untouched.log'), [])
  t.same(texts('small.log'), [])
  await until('what is outside is let go', () => next.value('sluice_files_watched') === 8)
  await next.stop()
  const last = await tail({ include, follow: false }, next.checkpoints)
  await last.run
  t.same(last.out.texts(), [], 'and nothing comes twice')
})

t.test('a kill soon after a file was found, and a rotation before the next start', async t => {
  const dir = testFolder(t, { 'old.log': 'old\n' })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [join(dir, '*.log')] })
  await settled(run, 1)
  // Nothing of the new file is delivered, so its saved position is its beginning.
  run.out.hold = true
  writeFileSync(path, 'one\n')
  await settled(run, 2)
  await until('the save', () => JSON.stringify(run.checkpoints.document).includes('app.log'))
  await run.kill()
  appendFileSync(path, 'two\n')
  renameSync(path, join(dir, 'app.old'))
  writeFileSync(path, 'three\n')
  const next = await tail({ include: [join(dir, '*.log')], follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.texts(path), ['one', 'two', 'three'], 'what was not saved comes again, the rest comes')
  await next.stop()
})

t.test('names that were passed on in a circle while nothing ran', async t => {
  const dir = testFolder(t, { 'a.log': 'one\n', 'b.log': 'two\n', 'c.log': 'three\n' })
  const at = (name: string) => join(dir, name)
  const out = new Receiver()
  out.hold = true
  const run = await tail({ include: [at('*.log')] }, new MemoryCheckpoints(), out)
  await settled(run, 3)
  await run.kill()
  renameSync(at('a.log'), at('away'))
  renameSync(at('b.log'), at('a.log'))
  renameSync(at('c.log'), at('b.log'))
  renameSync(at('away'), at('c.log'))
  const next = await tail({ include: [at('*.log')], follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.texts().sort(), ['one', 'three', 'two'])
})

t.test('rename cycles through the pattern', async t => {
  const dir = testFolder(t, { 'a.log': 'one\n', 'b.log': 'two\n' })
  const [a, b, away] = [join(dir, 'a.log'), join(dir, 'b.log'), join(dir, 'away')]
  const run = await tail({ include: [join(dir, '*.log')], scan_interval: '20ms', rotate_wait: '30ms' })
  await settled(run, 2)
  for (let i = 0; i < 5; i++) {
    renameSync(a, away)
    renameSync(b, a)
    renameSync(away, b)
    if (i > 0) await run.scanned(i - 1)
  }
  renameSync(a, away)
  await until('it is let go', () => run.value('sluice_files_watched') === 1)
  appendFileSync(away, 'three\n')
  renameSync(away, a)
  await settled(run, 3)
  t.same(run.out.texts(), ['one', 'two', 'three'])
  await run.stop()
})

t.test('names: hard links once, equal lines twice, symbolic links followed and switched', async t => {
  const dir = testFolder(t, {
    logs: { 'one.log': 'same\n', 'two.log': 'same\n', 'empty.log': '', 'void.log': '' },
    targets: { first: 'first\n', second: 'second\n' },
  })
  const at = (...names: string[]) => join(dir, ...names)
  linkSync(at('logs', 'one.log'), at('logs', 'link.log'))
  symlinkSync(at('targets', 'first'), at('logs', 'sym.log'))
  symlinkSync(at('logs'), at('logs', 'loop'))
  symlinkSync(at('nowhere'), at('logs', 'dangling.log'))
  const run = await tail({ include: [at('logs', '**', '*.log')], scan_interval: '1h' })
  await arrived(run, 3)
  t.same(run.out.texts().sort(), ['first', 'same', 'same'])
  appendFileSync(at('logs', 'link.log'), 'linked\n')
  appendFileSync(at('logs', 'empty.log'), 'no more\n')
  appendFileSync(at('targets', 'first'), 'followed\n')
  await arrived(run, 6)
  unlinkSync(at('logs', 'sym.log'))
  symlinkSync(at('targets', 'second'), at('logs', 'sym.log'))
  await arrived(run, 7)
  appendFileSync(at('targets', 'first'), 'late\n')
  await arrived(run, 8)
  t.same(run.out.texts().slice(3).sort(), ['followed', 'late', 'linked', 'no more', 'second'])
  t.same(
    run.log.filter(({ level }) => level >= 40),
    [],
  )
  await run.stop()
})

t.test('folders that come later, and come again', async t => {
  const dir = testFolder(t)
  const include = [join(dir, 'x/y/*.log'), join(dir, 'deep/**/z.log'), join(dir, 'exact/app.log')]
  const run = await tail({ include, exclude: ['not*', join(dir, 'deep/no/**')], scan_interval: '1h' })
  let lines = 0
  const scans = () => run.value('sluice_file_scans_total')!
  const scannedSince = (before: number) => until('a change in a folder causes a scan', () => scans() > before)
  await scannedSince(0)
  for (let round = 0; round < 2; round++) {
    let before = scans()
    mkdirSync(join(dir, 'x/y'), { recursive: true })
    await scannedSince(before)
    writeFileSync(join(dir, 'x/y/a.log'), 'x\n')
    writeFileSync(join(dir, 'x/y/not.log'), 'no\n')
    writeFileSync(join(dir, 'x/y/a.txt'), 'no\n')
    await arrived(run, ++lines)
    mkdirSync(join(dir, 'deep/a/b'), { recursive: true })
    mkdirSync(join(dir, 'deep/no'), { recursive: true })
    writeFileSync(join(dir, 'deep/a/b/z.log'), 'z\n')
    writeFileSync(join(dir, 'deep/z.log'), 'z\n')
    writeFileSync(join(dir, 'deep/no/z.log'), 'no\n')
    mkdirSync(join(dir, 'exact'))
    writeFileSync(join(dir, 'exact/app.log'), 'app\n')
    lines += 3
    await arrived(run, lines)
    before = scans()
    for (const name of ['x', 'deep', 'exact']) rmSync(join(dir, name), { recursive: true })
    await scannedSince(before)
  }
  t.same(run.out.texts().sort(), ['app', 'app', 'x', 'x', 'z', 'z', 'z', 'z'])
  await run.stop()
})

t.test('an empty folder that goes and comes again', async t => {
  const dir = testFolder(t, { exact: {} })
  const run = await tail({ include: [join(dir, 'exact/*.log')], scan_interval: '1h' })
  const scans = () => run.value('sluice_file_scans_total')!
  // The second one finds that all folders were watched before it.
  await until('the folder is watched', () => scans() > 1)
  const before = scans()
  rmSync(join(dir, 'exact'), { recursive: true })
  await until('a scan, since the folder went', () => scans() > before)
  mkdirSync(join(dir, 'exact'))
  writeFileSync(join(dir, 'exact/app.log'), 'app\n')
  await arrived(run, 1)
  await run.stop()
})

/** A writer of numbered lines that rotates as logrotate and others do, and a daemon that is stopped and killed. */
async function shake(t: Test, seed: number, include: string): Promise<void> {
  const random = new Seeded(seed)
  const dir = testFolder(t)
  const path = join(dir, 'app.log')
  const options = {
    include: [join(dir, include)],
    scan_interval: '10ms',
    rotate_wait: '10s',
    max_open_files: random.pick([1, 2, 100]),
    partial_line_timeout: '1m',
  }
  const written = new Set<string>()
  let torn = ''
  let count = 0
  let killed = false
  let run = await tail(options)
  t.teardown(() => run.kill())
  const received: string[] = []
  const have = () => new Set([...received, ...run.out.texts()])
  const append = (text: string) => appendFileSync(path, text)
  const line = () => {
    const text = `${count++} ${'x'.repeat(random.chance(0.1) ? random.below(3000) : random.below(40))}`
    written.add(text)
    return text
  }
  const finish = () => {
    if (torn) append(`${torn}\n`)
    torn = ''
  }
  const caughtUp = () =>
    until(() => [...written].every(text => have().has(text)), { show: () => `seed ${seed}: ${missing()}` })
  const missing = () => JSON.stringify([...written].filter(text => !have().has(text)).map(text => text.slice(0, 20)))
  for (let step = 0; step < 40; step++) {
    const action = random.below(12)
    if (action < 5) {
      finish()
      append(Array.from({ length: random.below(30) }, () => `${line()}\n`).join(''))
    } else if (action === 5) {
      finish()
      const text = line()
      const cut = random.below(text.length)
      append(text.slice(0, cut))
      torn = text.slice(cut)
    } else if (action === 6) {
      finish()
      // Renamed out of the pattern before anybody saw it, a file is not found.
      if (include === 'app.log' || existsSync(`${path}.3`)) await caughtUp()
      for (let i = 2; i >= 1; i--) {
        try {
          renameSync(`${path}.${i}`, `${path}.${i + 1}`)
        } catch {}
      }
      try {
        renameSync(path, `${path}.1`)
      } catch {}
      if (random.chance(0.7)) append('')
    } else if (action === 7) {
      finish()
      await caughtUp()
      writeFileSync(path, random.chance(0.5) ? '' : `${line()}\n`)
    } else if (action === 8) {
      finish()
      await caughtUp()
      rmSync(random.pick([path, `${path}.1`, `${path}.3`]), { force: true })
    } else if (action === 9 || action === 10) {
      if (action === 10) {
        killed = true
        await run.kill()
      } else await run.stop()
      received.push(...run.out.texts())
      run = await tail(options, run.checkpoints)
    } else {
      await run.checkpoints.flush()
      await run.scanned(random.below(3))
    }
  }
  finish()
  await caughtUp()
  await run.scanned()
  await run.stop()
  received.push(...run.out.texts())
  t.same(
    [...new Set(received)].filter(text => text !== '' && !written.has(text)).map(text => text.slice(0, 20)),
    [],
    `seed ${seed}: nothing invented or damaged`,
  )
  if (!killed) t.equal(received.filter(text => text !== '').length, written.size, `seed ${seed}: nothing twice`)
}

t.test('random rotations, stops and kills lose nothing', { timeout: 600_000 }, async t => {
  const from = Number(process.env.SLUICE_SEED ?? 1)
  const seeds = Number(process.env.SLUICE_SEEDS ?? 10)
  for (let seed = from; seed < from + seeds; seed++) {
    await t.test(`seed ${seed}`, async t => shake(t, seed, seed % 2 ? 'app.log' : 'app.log*'))
  }
})

const LINES = 3000
const GENERATIONS = 5
/** More than is read at a time. */
const generation = (n: number) =>
  Array.from({ length: LINES }, (_, i) => `${String(n * LINES + i).padStart(6, '0')} ${'x'.repeat(400)}\n`).join('')

for (const isKilled of [false, true])
  t.test(
    `files that were renamed one after the other and not read, then ${isKilled ? 'killed' : 'stopped'}`,
    async t => {
      const dir = testFolder(t, { 'app.log': generation(0) })
      const path = join(dir, 'app.log')
      const options = { include: [path], scan_interval: '20ms' }
      const checkpoints = new MemoryCheckpoints()
      const out = new Receiver()
      out.hold = true
      const run = await tail(options, checkpoints, out)
      await run.scanned(2)
      for (let n = 1; n < GENERATIONS; n++) {
        for (let i = n - 1; i > 0; i--) renameSync(`${path}.${i}`, `${path}.${i + 1}`)
        renameSync(path, `${path}.1`)
        writeFileSync(path, generation(n))
        await run.scanned(2)
      }
      if (isKilled) {
        await checkpoints.flush()
        await run.kill()
      } else await run.stop()
      const next = await tail(options, checkpoints)
      await settled(next, GENERATIONS * LINES)
      const numbers = next.out.texts().map(text => Number(text.slice(0, 6)))
      t.equal(numbers.length, GENERATIONS * LINES)
      t.equal(
        numbers.findIndex((number, i) => i > 0 && number < numbers[i - 1]!),
        -1,
        'in order',
      )
      await next.stop()
    },
  )
