import {
  appendFileSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CONTINUES } from '../../../../src/lib/lines/line-splitter.js'
import { testFolder } from '../../../support/folder.js'
import { freeChunks } from '../../../support/free-chunks.js'
import { MemoryCheckpoints, Receiver, type Tailing, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const lines = ({ out }: Tailing, count: number) =>
  until(`${count} lines`, () => out.lines.length >= count, { show: () => out.texts() })
/**
 * Resolves when everything that was seen of other files is read, by an event of this one: files are read in turns. Their sizes are
 * known before, and the time of growth of a file is that of the read.
 */
const seenIsRead = async ({ out }: Tailing, marker: string, text = 'marker\n') => {
  const count = out.texts(marker).length
  appendFileSync(marker, text)
  await until('the marker', () => out.texts(marker).length > count)
}

t.test('the rest of a line that comes just before a stop is not cut off', async t => {
  const dir = testFolder(t, { 'a.log': 'first half ', 'marker.log': '' })
  const [path, marker] = [join(dir, 'a.log'), join(dir, 'marker.log')]
  const run = await tail({ include: [path, marker] })
  await run.read(path)
  await seenIsRead(run, marker)
  appendFileSync(path, 'second half\n')
  await run.stop()
  const next = await tail({ include: [path] }, run.checkpoints)
  await until('all of it', () => next.value('sluice_file_unread_bytes') === 0)
  await next.stop()
  t.same([...run.out.texts(path), ...next.out.texts()], ['first half second half'])
})

t.test('a file that got a second name was not renamed, so its unfinished line waits', async t => {
  const dir = testFolder(t, { 'b.log': 'whole\nhalf', 'marker.log': '' })
  const clock = new TestTime()
  const options = { include: [join(dir, '*.log')], rotate_wait: '1s' }
  const run = await tail(options, undefined, undefined, clock)
  await lines(run, 1)
  await run.stop()
  linkSync(join(dir, 'b.log'), join(dir, 'a.log'))
  const next = await tail(options, run.checkpoints, undefined, clock)
  await seenIsRead(next, join(dir, 'marker.log'))
  clock.ms += 10_000
  await next.scanned(2)
  await seenIsRead(next, join(dir, 'marker.log'))
  t.same(next.out.texts(), ['marker', 'marker'])
  appendFileSync(join(dir, 'b.log'), ' and rest\n')
  await lines(next, 3)
  t.same(next.out.texts()[2], 'half and rest')
  await next.stop()
})

t.test('a stop keeps an unfinished line for the next start', async t => {
  const dir = testFolder(t, { 'a.log': 'whole\nhalf', 'marker.log': '' })
  const [path, marker] = [join(dir, 'a.log'), join(dir, 'marker.log')]
  const run = await tail({ include: [path, marker] })
  await lines(run, 1)
  await seenIsRead(run, marker)
  await run.stop()
  appendFileSync(path, ' and half\n')
  const next = await tail({ include: [path] }, run.checkpoints)
  await lines(next, 1)
  await next.stop()
  t.same(
    [run.out.texts(path), next.out.lines.map(({ text, flags }) => [text, flags])],
    [['whole'], [['half and half', 1]]],
  )
})

t.test('a stop in the middle of an event of several lines keeps it whole', async t => {
  const dir = testFolder(t, { 'a.log': 'S1\n a\n', 'marker.log': '' })
  const [path, marker] = [join(dir, 'a.log'), join(dir, 'marker.log')]
  const options = { include: [path, marker], multiline: { start: '^S', timeout: '1m' } }
  const run = await tail(options)
  await run.read(path)
  await seenIsRead(run, marker, 'S\nS\n')
  await run.stop()
  appendFileSync(path, ' b\nS2\n')
  const next = await tail(options, run.checkpoints)
  await lines(next, 1)
  await next.stop()
  t.same([...run.out.texts(path), ...next.out.texts(path)], ['S1\n a\n b'])
})

t.test(
  'an unfinished line waits as long as its file may grow, and is delivered when it was renamed and is quiet',
  async t => {
    const dir = testFolder(t, { 'a.log': 'whole\nhalf', 'marker.log': '' })
    const [path, marker] = [join(dir, 'a.log'), join(dir, 'marker.log')]
    const clock = new TestTime()
    const options = { include: [join(dir, '*.log*')], rotate_wait: '1 Minutes' }
    const run = await tail(options, new MemoryCheckpoints(), new Receiver(), clock)
    await lines(run, 1)
    await seenIsRead(run, marker)
    clock.ms += 3_600_000
    await seenIsRead(run, marker)
    t.same(run.out.texts(path), ['whole'])
    renameSync(path, `${path}.1`)
    writeFileSync(path, 'new\n')
    await until('the new file', () => run.out.texts(path).length === 2)
    appendFileSync(`${path}.1`, ' of it')
    await run.read(`${path}.1`)
    await seenIsRead(run, marker)
    clock.ms += 50_000
    await seenIsRead(run, marker)
    t.same(run.out.texts(path), ['whole', 'new'], 'rotated, and not quiet for long enough')
    clock.ms += 11_000
    appendFileSync(path, 'next\n')
    await until('the unfinished line', () => run.out.texts(path).length === 4)
    await run.stop()
    t.same(run.out.texts(path).sort(), ['half of it', 'new', 'next', 'whole'])
  },
)

t.test(
  'with partial_line_timeout, no line of a writer that pauses for less is cut; the others go on as pieces',
  async t => {
    const line = `${'x'.repeat(99)}\n`
    const all = line.repeat(200)
    const dir = testFolder(t, { 'a.log': '', 'marker.log': '' })
    const [path, marker] = [join(dir, 'a.log'), join(dir, 'marker.log')]
    const clock = new TestTime()
    const run = await tail({ include: [path, marker], partial_line_timeout: '5s' }, undefined, undefined, clock)
    const pause = async (ms: number) => {
      await seenIsRead(run, marker)
      clock.ms += ms
      await seenIsRead(run, marker)
    }
    // Programs write full buffers, which end anywhere in a line.
    for (let at = 0; at < all.length; at += 4096) {
      appendFileSync(path, all.slice(at, at + 4096))
      await until('a block', () => run.out.texts(path).length >= Math.floor(Math.min(at + 4096, all.length) / 100))
      await pause(4000)
    }
    t.same(run.out.texts(path), Array(200).fill('x'.repeat(99)))
    for (const part of ['one, ', 'two, ']) {
      appendFileSync(path, part)
      await run.read(path)
      const count = run.out.texts(path).length
      await pause(6000)
      await until('delivered after its time', () => run.out.texts(path).length > count)
    }
    appendFileSync(path, 'three\nfour\n')
    await until('the end', () => run.out.texts(path).length >= 204)
    await run.stop()
    t.same(
      run.out.lines
        .filter(({ file }) => file === path)
        .slice(200)
        .map(({ text, flags }) => [text, flags]),
      [
        ['one, ', 0],
        ['two, ', CONTINUES],
        ['three', 1 | CONTINUES],
        ['four', 1],
      ],
    )
  },
)

t.test('what the next start could not find is delivered at a stop', async t => {
  const dir = testFolder(t, { 'deleted.log': 'half', 'moved.log': 'half', 'renamed.log': 'half', old: {} })
  const [deleted, moved, renamed] = ['deleted', 'moved', 'renamed'].map(name => join(dir, `${name}.log`)) as [
    string,
    string,
    string,
  ]
  const run = await tail({ include: [join(dir, '*.log')] })
  await until('open', () => run.value('sluice_files_open') === 3)
  for (const path of [deleted, moved, renamed]) await run.read(path)
  const more = ` line\n${'more\n'.repeat(100_000)}the end`
  for (const path of [deleted, moved]) appendFileSync(path, more)
  unlinkSync(deleted)
  renameSync(moved, join(dir, 'old/moved.log'))
  renameSync(renamed, `${renamed}.1`)
  await run.stop()
  for (const path of [deleted, moved]) t.ok(run.out.bytes(path).toString() === `half${more}`, path)
  t.same(run.out.texts(renamed), [])
  appendFileSync(`${renamed}.1`, ' and half')
  const next = await tail({ include: [join(dir, '*.log')], rotate_wait: '20ms' }, run.checkpoints)
  await lines(next, 1)
  await next.stop()
  t.match(next.out.lines, [{ file: renamed, text: 'half and half', flags: 0 }])
  t.equal(next.out.lines.length, 1)
})

t.test('a stop delivers the content of a deleted file in order, although the file was truncated before', async t => {
  const dir = testFolder(t, { 'a.log': '1\n' })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.room = new Promise(() => {})
  const run = await tail({ include: [path] }, undefined, out)
  await lines(run, 1)
  appendFileSync(path, '2\n')
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  appendFileSync(path, 'three\n')
  await until('the copy is open', () => run.value('sluice_files_open') === 2)
  for (const one of [path, `${path}.1`]) unlinkSync(one)
  out.room = Promise.resolve()
  await run.stop()
  t.same(out.texts(), ['1', '2', 'three'])
})

t.test('unfinished lines that wait for room at a stop come once, now or after the next start', async t => {
  const names = ['a.log', 'b.log', 'deleted.log', 'deleted too.log']
  const dir = testFolder(t, { ...Object.fromEntries(names.map(name => [name, 'half'])), 'marker.log': '' })
  const paths = names.map(name => join(dir, name))
  const clock = new TestTime()
  const out = new Receiver()
  const options = { include: [join(dir, '*.log')] }
  const run = await tail({ ...options, partial_line_timeout: '1m' }, undefined, out, clock)
  for (const path of paths) await run.read(path)
  out.room = new Promise(() => {})
  clock.ms += 60_000
  appendFileSync(join(dir, 'marker.log'), 'marker\n')
  await until('the first one', () => out.batches === 1)
  for (const path of paths.slice(2)) unlinkSync(path)
  out.room = Promise.resolve()
  await run.stop()
  for (const path of paths.slice(0, 2)) appendFileSync(path, ' and half\n')
  const next = await tail(options, run.checkpoints)
  await until('the rest', () => next.value('sluice_file_unread_bytes') === 0)
  await next.stop()
  const all = paths.map(path => Buffer.concat([out.bytes(path), next.out.bytes(path)]).toString())
  t.same(all, ['half and half\n', 'half and half\n', 'half', 'half'])
})

t.test('a stop gives up on a deleted file when nothing is delivered any more', async t => {
  const dir = testFolder(t, { 'a.log': 'line\nhalf' })
  const path = join(dir, 'a.log')
  const out = new Receiver()
  out.hold = true
  const checkpoints = new MemoryCheckpoints()
  const run = await tail({ include: [path] }, checkpoints, out)
  await lines(run, 1)
  let go = () => {}
  out.room = new Promise(resolve => {
    go = resolve
  })
  appendFileSync(path, ' a line\n'.repeat(200_000))
  await lines(run, 2)
  t.equal(run.value('sluice_file_deleted_undelivered_bytes'), 0)
  const { size } = statSync(path)
  unlinkSync(path)
  await until(() => run.value('sluice_file_deleted_undelivered_bytes') === size)
  const { batches } = out
  const stopped = run.stop()
  await until('the rest of the deleted file is read', () => out.batches > batches)
  const told = run.log.find(({ code }) => code === 'SLUICE_FILE_DELETED')
  t.match(told, { file: path, undelivered_bytes: size }, 'before it is lost')
  t.equal(statSync((told as { open_as?: string }).open_as!).size, size, 'and it can be copied')
  out.settle('errored')
  go()
  await stopped
  t.match(run.log.at(-1), { code: 'SLUICE_FILE_VANISHED', file: path, undelivered_bytes: size })
  t.equal(run.value('sluice_file_lost_bytes_total'), 0)
  const next = await tail({ include: [join(dir, '*.log')] }, checkpoints)
  await until(() => next.value('sluice_file_lost_bytes_total') === size, { show: () => next.log })
  await next.stop()
})

t.test('the next start counts what was read of a deleted file and was not delivered', async t => {
  const dir = testFolder(t, { 'a.log': 'line\n' })
  const path = join(dir, 'a.log')
  const checkpoints = new MemoryCheckpoints()
  const out = new Receiver()
  const run = await tail({ include: [path] }, checkpoints, out)
  await lines(run, 1)
  out.hold = true
  appendFileSync(path, 'line\n'.repeat(100))
  await lines(run, 101)
  let { changes } = checkpoints
  unlinkSync(path)
  await until(() => run.value('sluice_file_deleted_undelivered_bytes') === 500)
  t.ok(checkpoints.changes > changes, 'a kill may follow')
  changes = checkpoints.changes
  await run.stop()
  t.ok(checkpoints.changes > changes, 'it may have grown')
  out.settle('errored')
  const next = await tail({ include: [join(dir, '*.log')] }, checkpoints)
  await until(() => next.value('sluice_file_lost_bytes_total') === 500, { show: () => next.log })
  await next.stop()
})

t.test('unfinished lines take no descriptors from other files, and are whole all the same', async t => {
  const dir = testFolder(t, { logs: {} })
  const paths = Array.from({ length: 5 }, (_, i) => join(dir, `logs/${i}.log`))
  for (const path of paths) writeFileSync(path, 'first\nhalf')
  const options = { include: [join(dir, 'logs/*.log')], max_open_files: 2 }
  const run = await tail(options)
  await lines(run, 5)
  t.ok(run.value('sluice_files_open')! <= 2, `${run.value('sluice_files_open')} are open`)
  for (const path of paths) appendFileSync(path, ' and')
  for (const path of paths) await run.read(path)
  renameSync(paths[0]!, `${paths[0]}.1`)
  await run.scanned(2)
  for (const path of [`${paths[0]}.1`, ...paths.slice(1)]) appendFileSync(path, ' half\n')
  await lines(run, 10)
  await run.stop()
  t.same(run.out.texts().sort(), [...Array(5).fill('first'), ...Array(5).fill('half and half')])
})

t.test('the rest of a line that was dropped to save a descriptor comes before newer lines', async t => {
  const dir = testFolder(t, { logs: { 'a.log': 'half' } })
  const [path, unwatched] = [join(dir, 'logs/a.log'), join(dir, 'link')]
  linkSync(path, unwatched)
  const run = await tail({ include: [join(dir, 'logs/*')], max_open_files: 2, scan_interval: '1h' })
  await run.read(path)
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'new ')
  await until('the new file', () => run.value('sluice_files_open') === 2)
  appendFileSync(path, 'half ')
  await run.read(path)
  writeFileSync(join(dir, 'logs/b.log'), 'b\n')
  await lines(run, 1)
  // The file is opened again, but its line is not read again.
  utimesSync(`${path}.1`, new Date(), new Date())
  appendFileSync(path, 'and ')
  await run.read(path)
  appendFileSync(unwatched, ' and half\n')
  appendFileSync(path, 'half\n')
  await until('the last line', () => run.out.texts().at(-1) === 'new half and half')
  t.same(run.out.texts(path), ['half and half', 'new half and half'])
  await run.stop()
})

t.test('unfinished lines that are due at once do not take the only descriptor from each other', async t => {
  const dir = testFolder(t, { 'a.log': 'a', 'b.log': 'b', 'c.log': 'c' })
  const options = { include: [join(dir, '*.log')], max_open_files: 1, partial_line_timeout: '100ms' }
  const clock = new TestTime()
  clock.hold()
  const run = await tail(options, undefined, undefined, clock)
  for (const name of ['a', 'b', 'c']) await run.read(join(dir, `${name}.log`))
  clock.ms += 200
  await lines(run, 3)
  t.strictSame(run.out.texts().toSorted(), ['a', 'b', 'c'])
  await run.stop()
})

t.test('unfinished lines beyond the memory for them are not cut', async t => {
  const dir = testFolder(t)
  mkdirSync(join(dir, 'logs'))
  const long = 'x'.repeat(15 << 20)
  const paths = Array.from({ length: 4 }, (_, i) => join(dir, `logs/${i}.log`))
  for (const path of paths) writeFileSync(path, long)
  // The longest one is read last.
  writeFileSync(join(dir, 'logs/z.log'), `${'z'.repeat(20 << 20)}\n`)
  const run = await tail({ include: [join(dir, 'logs/*.log')], max_line_bytes: '32MiB' })
  await until('all are read', () => run.out.lines.some(({ text }) => text.startsWith('z')))
  for (const path of paths) appendFileSync(path, '\n')
  await until('all lines', () => run.out.lines.length >= 5)
  await run.stop()
  const cut = run.out.lines.filter(({ text, flags }) => text.length < 15 << 20 || flags !== 1)
  t.same(
    cut.map(({ text, flags }) => ({ length: text.length, flags })),
    [],
  )
})

t.test('a long unfinished line gives its memory back when its file is closed', async t => {
  const before = freeChunks()
  const dir = testFolder(t, { 'a.log': 'x'.repeat(300_000) })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path] })
  await until(() => freeChunks() < before, { show: () => 'that it takes memory' })
  await run.stop()
  t.equal(freeChunks(), before)
})

t.test('so does that of a file that was truncated, at a stop', async t => {
  const before = freeChunks()
  const path = join(testFolder(t, { 'a.log': 'x'.repeat(300_000) }), 'a.log')
  const run = await tail({ include: [path] })
  await until(() => freeChunks() < before, { show: () => 'that it takes memory' })
  writeFileSync(path, 'new\n')
  await lines(run, 1)
  t.ok(freeChunks() < before, 'the line may be continued in a copy')
  await run.stop()
  t.equal(freeChunks(), before)
})

interface Saved {
  readonly files: readonly {
    readonly offset: number
    readonly carry?: number
    readonly tail: { readonly bytes: number }
  }[]
}

const multiline = (timeout: string) => ({ start: '^S', timeout })

t.test('what waits is not cut where appends are not seen at once', async t => {
  const dir = testFolder(t, { logs: { 'a.log': 'S1\n a\n' }, elsewhere: {} })
  const path = join(dir, 'logs/a.log')
  const other = join(dir, 'elsewhere/a.log')
  linkSync(path, other)
  const clock = new TestTime()
  clock.hold()
  const options = { include: [path], scan_interval: '1h', multiline: multiline('200ms') }
  const run = await tail(options, undefined, undefined, clock)
  await run.read(path)
  // Under a name in a folder that nobody watches.
  appendFileSync(other, ' b\n')
  clock.release()
  await until('delivered', () => run.out.lines.length > 0)
  await run.stop()
  t.same(run.out.texts(), ['S1\n a\n b'])
})

t.test('the position between events is known by what is before it, however they were read', async t => {
  const dir = testFolder(t, { 'a.log': 'S1\n a\n' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], multiline: multiline('1h') })
  await run.read(path)
  const line = `S2 ${'x'.repeat(5000)}`
  appendFileSync(path, line)
  await run.read(path)
  await run.scanned()
  appendFileSync(path, '\n')
  await until('the first event', () => run.out.lines.length === 1)
  await run.stop()
  t.same(run.out.texts(), ['S1\n a'])
  t.match((run.checkpoints.document as Saved).files, [{ offset: 6, tail: { bytes: 6 } }])
  const next = await tail({ include: [path], multiline: multiline('50ms') }, run.checkpoints)
  await until('the second event', () => next.out.lines.length === 1)
  appendFileSync(path, ' late\n')
  await until('its rest', () => next.out.lines.length === 2)
  await next.stop()
  t.match(next.out.lines, [
    { text: line, flags: 1 },
    { text: ' late', flags: 1 | CONTINUES },
  ])
  const { files } = next.checkpoints.document as Saved
  t.match(files, [{ offset: line.length + 13, carry: 1 }], 'that it may go on is saved')
  appendFileSync(path, ' later\nS3\n')
  const last = await tail({ include: [path], multiline: multiline('50ms') }, next.checkpoints)
  await until('more of its rest', () => last.out.lines.length === 2)
  await last.stop()
  t.match(last.out.lines, [
    { text: ' later', flags: 1 | CONTINUES },
    { text: 'S3', flags: 1 },
  ])
})

t.test('a batch that is given back comes again as the same events', async t => {
  const dir = testFolder(t, { 'a.log': 'S1\n a\nS2\n' })
  const path = join(dir, 'a.log')
  const run = await tail({ include: [path], multiline: { ...multiline('30ms'), max_lines: 2 } })
  await until('both', () => run.out.lines.length === 2)
  run.out.hold = true
  appendFileSync(path, ' b\n c\n d\n e\nS3\n')
  await until('more', () => run.out.lines.length === 5)
  const first = run.out.lines.slice(2)
  run.out.settle('errored')
  await t.rejects(run.run, /was not delivered/)
  run.out.hold = false
  run.again().catch(() => {})
  await until('again', () => run.out.lines.length === 8)
  await run.stop()
  t.same(run.out.lines.slice(5), first)
  t.same(valuesOf(first, 'text'), [' b\n c', ' d\n e', 'S3'])
  t.equal(first[0]!.flags & CONTINUES, CONTINUES)
})
