import {
  appendFileSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import zlib, { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { type Format, isReadable } from '../../../../src/components/file/compression.js'
import { Inflated } from '../../../../src/components/file/rotation/inflated.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { testFolder } from '../../../support/folder.js'
import {
  arrived,
  laterFiles,
  MemoryCheckpoints,
  Receiver,
  settled,
  type Tailing,
  TestTime,
  tail,
} from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const DAY_MS = 24 * 3_600_000
const MIB = 1024 * 1024

const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `line ${from + i}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')

const { zstdCompressSync } = zlib as unknown as { readonly zstdCompressSync: typeof gzipSync }

/** Files that just changed are read when they are at rest. */
function start(options: object, checkpoints = new MemoryCheckpoints(), ms = 2000): Promise<Tailing> {
  const clock = new TestTime()
  clock.ms = ms
  return tail({ ...options }, checkpoints, new Receiver(), clock)
}

const skipped = (run: Tailing) => run.value('sluice_file_compressed_total') ?? 0
const coded = (run: Tailing, code: string) => run.log.filter(one => one.code === code)

t.test('compressed files in the pattern are read unless they are copies, and other formats are counted', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 3)) })
  const path = join(dir, 'app.log')
  const options = { include: [join(dir, '*')] }
  const others = {
    old: gzipSync('old\nolder\n'),
    'a.xz': '\xfd7zXZ\0\0',
    'a.bz2': 'BZh91AY&SY',
    'empty.bz2': 'BZh9\x17rE8P\x90',
    'empty.gz': gzipSync(''),
  }
  for (const [name, bytes] of Object.entries(others)) writeFileSync(join(dir, name), bytes, 'latin1')
  writeFileSync(join(dir, 'text'), 'BZh is no beginning of a compressed file\n')
  const run = await start(options)
  await settled(run, 6)
  await until('the others to be counted', () => skipped(run) === 3)
  renameSync(path, `${path}.1`)
  writeFileSync(path, asText(numbered(3, 5)))
  await settled(run, 8)
  writeFileSync(`${path}.1.gz`, '')
  await run.scanned(3)
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(`${path}.1`)))
  rmSync(`${path}.1`)
  writeFileSync(join(dir, 'new.gz'), '')
  await run.scanned(3)
  writeFileSync(join(dir, 'new.gz'), Buffer.concat([gzipSync('new\n'), gzipSync('newer\nand no end')]))
  await settled(run, 11)
  renameSync(`${path}.1.gz`, `${path}.2.gz`)
  await run.scanned(3)
  await run.stop()
  t.equal(skipped(run), 3)
  t.equal(coded(run, 'SLUICE_FILE_COMPRESSED').length, 1)
  t.same(run.out.texts(join(dir, 'old')), ['old', 'older'])
  t.same(run.out.texts(join(dir, 'new.gz')), ['new', 'newer', 'and no end'])

  const next = await start(options, run.checkpoints)
  await until('them to be counted', () => skipped(next) === 3)
  appendFileSync(path, 'after\n')
  await settled(next, 1)
  await next.scanned(3)
  t.same(next.out.texts(), ['after'], 'nothing is read again')
  await next.stop()
})

t.test('while a compressed file is written, files are scanned ever less often', async t => {
  const dir = testFolder(t, { 'app.log': 'line\n' })
  const run = await tail({ include: [join(dir, '*')], scan_interval: '1s' })
  await arrived(run, 1)
  writeFileSync(join(dir, 'new.gz'), gzipSync('new\n'))
  const began = performance.now()
  // The delays are at least 20, 40, 80, 160 and 320 ms.
  await run.scanned(5)
  const took = performance.now() - began
  t.ok(took > 500, `${took} ms`)
  writeFileSync(join(dir, 'other.log'), 'other\n')
  await until('another file to be read', () => run.out.texts().includes('other'))
  await run.stop()
})

t.test('a file that was empty at the stop may be compressed at the next start', async t => {
  const dir = testFolder(t, { 'new.gz': '' })
  const path = join(dir, 'new.gz')
  const options = { include: [join(dir, '*')] }
  const run = await start(options)
  await run.scanned(3)
  await run.stop()
  writeFileSync(path, gzipSync('new\nnewer\n'))
  const next = await start(options, run.checkpoints)
  await settled(next, 2)
  await next.stop()
  t.same(next.out.texts(path), ['new', 'newer'])
})

t.test(
  'read_from: end skips the archives that are there at the first start, unless the option says otherwise',
  async t => {
    const dir = testFolder(t, { 'app.log': 'line\n' })
    for (let i = 0; i < 30; i++) writeFileSync(join(dir, `app.log.${i + 1}.gz`), gzipSync(asText(numbered(i, i + 20))))
    const options = { include: [join(dir, 'app.log*')], read_from: 'end' }
    const first = await start(options, undefined, DAY_MS)
    await until('all to be skipped', () => skipped(first) === 30)
    t.match(
      coded(first, 'SLUICE_FILE_COMPRESSED').map(({ msg }) => msg),
      [/read_old_compressed: true/],
    )
    t.same(first.out.texts(), [])
    await first.stop()
    const { checkpoints } = first

    const again = await start(options, checkpoints, 2 * DAY_MS)
    await until('all to be skipped again', () => skipped(again) === 30)
    t.same(again.out.texts(), [])
    await again.stop()

    for (const [read, title] of [
      [600, 'read'],
      [0, 'not read twice'],
    ] as const) {
      const told = await start({ ...options, read_old_compressed: true }, checkpoints, 3 * DAY_MS)
      await settled(told, read)
      await told.scanned(3)
      t.equal(told.out.texts().length, read, title)
      t.equal(skipped(told), 0)
      await told.stop()
    }
  },
)

t.test('an archive is known for as long as it is there', async t => {
  const dir = testFolder(t, {})
  const path = join(dir, 'app.log.gz')
  writeFileSync(path, gzipSync(asText(numbered(0, 10))))
  const clock = new TestTime()
  clock.ms = 2000
  const options = { include: [join(dir, '*')], rotate_wait: '10ms' }
  const first = await tail(options, undefined, new Receiver(), clock)
  await settled(first, 10)
  await until('it to be let go', () => first.value('sluice_files_watched') === 0)
  for (let day = 0; day < 20; day++) {
    clock.ms += DAY_MS
    await first.scanned()
  }
  renameSync(path, `${path}.1`)
  await first.scanned()
  await first.stop()
  const next = await tail(options, first.checkpoints, new Receiver(), clock)
  await next.scanned(3)
  t.same(next.out.texts(), [])
  await next.stop()
})

t.test('an archive with several names, in the same and in another folder, is read once', async t => {
  const dir = testFolder(t, { a: {}, b: {} })
  const path = join(dir, 'a', 'app.log.gz')
  writeFileSync(path, gzipSync(asText(numbered(0, 10))))
  linkSync(path, join(dir, 'a', 'link.gz'))
  symlinkSync(path, join(dir, 'b', 'link.gz'))
  const options = { include: [join(dir, '*/*.gz')] }
  const run = await start(options)
  await settled(run, 10)
  await run.scanned(5)
  t.equal(run.out.texts().length, 10)
  await run.stop()
  const next = await start(options, run.checkpoints)
  await next.scanned(5)
  t.same(next.out.texts(), [])
  await next.stop()
})

t.test('a kill in the middle: it is read on from the last saved line', async t => {
  const dir = testFolder(t, {})
  const lines = numbered(0, 300_000)
  writeFileSync(join(dir, 'app.log.gz'), gzipSync(asText(lines)))
  const options = { include: [join(dir, '*.gz')], follow: false }
  const first = await start(options)
  first.out.hold = true
  await arrived(first, 1)
  await until('half of it to be on its way', () => first.out.lines.length > 100_000)
  first.out.settle('delivered', 2)
  await first.checkpoints.flush()
  await first.kill()
  const saved = (first.checkpoints.document as { files: { offset: number }[] }).files[0]!.offset
  t.ok(saved > 0 && saved < asText(lines).length, `saved at ${saved}`)
  const next = await start(options, first.checkpoints)
  await next.run
  const from = lines.length - next.out.texts().length
  t.equal(asText(lines.slice(0, from)).length, saved)
  t.strictSame(next.out.texts(), lines.slice(from))
  await next.stop()
})

t.test('batches that come back: the rest in a compressed copy is read again before the new file', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 2)) })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const first = await start(options)
  await settled(first, 2)
  await first.stop()
  writeFileSync(`${path}.1.gz`, gzipSync(asText(numbered(0, 4))))
  rmSync(path)
  writeFileSync(path, asText(numbered(4, 6)))
  const next = await start(options, first.checkpoints)
  next.out.hold = true
  await settled(next, 4)
  next.out.hold = false
  next.out.settle('errored')
  await next.run.catch(() => {})
  next.again().catch(() => {})
  await settled(next, 8)
  t.same(next.out.texts(), [...numbered(2, 6), ...numbered(2, 6)])
  await next.stop()
})

t.test('no file that waits keeps the inflaters from the files that it waits for', async t => {
  const dir = testFolder(t, {})
  const paths = Array.from({ length: 16 }, (_, i) => join(dir, `app${String.fromCharCode(97 + i)}.log`))
  for (const path of paths) writeFileSync(path, `${path}\n`)
  const options = { include: [join(dir, '*.log')] }
  const first = await start(options, undefined, 0)
  await settled(first, paths.length)
  await first.stop()
  for (const path of paths) {
    writeFileSync(`${path}.2.gz`, gzipSync(`${path}\nrest\n`))
    rmSync(path)
  }
  await laterFiles(dir)
  const line = 'x'.repeat(63 * 1024)
  for (const path of paths) writeFileSync(`${path}.1.gz`, gzipSync(`${path}\n${`${line}\n`.repeat(40)}`))
  await laterFiles(dir)
  for (const path of paths) writeFileSync(path, 'new\n')
  /** All rests, and then two portions of each file that was never seen. */
  const taken = 3 * paths.length
  const out = new (class extends Receiver {
    override async send(batch: EventBatch): Promise<void> {
      await super.send(batch)
      if (this.hold && this.batches >= taken) await new Promise(() => {})
    }
  })()
  out.hold = true
  const clock = new TestTime()
  clock.ms = 2000
  const next = await tail(options, first.checkpoints, out, clock)
  await until('all inflaters to be in use', () => out.batches === taken, {
    show: () => out.lines.map(({ file, text }) => [file.slice(-8), text.length]),
  })
  t.equal(new Set(out.lines.slice(paths.length).map(({ file }) => file)).size, paths.length)
  const before = out.lines.length
  out.hold = false
  out.settle('errored')
  await next.run.catch(() => {})
  next.again().catch(() => {})
  const again = () => out.lines.slice(before)
  await until('all to be read', () => again().filter(({ text }) => text === 'new').length === paths.length)
  for (const path of paths)
    t.strictSame(
      again().flatMap(({ file, text }) => (file === path ? [text.length] : [])),
      ['rest', path, ...Array(40).fill(line), 'new'].map(({ length }) => length),
    )
  await next.stop()
})

t.test('a file in UTF-32 is refused under this name, in both byte orders', async t => {
  const little = Buffer.from('fffe00006100000062000000', 'hex')
  const dir = testFolder(t, { 'little.log': little, 'big.log': Buffer.from(little).swap32(), 'a.log': 'a\n' })
  const run = await start({ include: [join(dir, '*.log')] })
  await settled(run, 1)
  await until('both are refused', () => coded(run, 'SLUICE_FILE_UNREADABLE').length === 2)
  t.same(
    coded(run, 'SLUICE_FILE_UNREADABLE').map(({ cause }) => cause),
    ['UTF-32', 'UTF-32'],
  )
  t.same(run.out.texts(), ['a'])
  await run.stop()
})

t.test('a file in UTF-16 is refused, also in a compressed file, and if it was empty when it was found', async t => {
  const dir = testFolder(t, { 'app.log': '', 'marker.log': 'one\n' })
  const [path, marker] = [join(dir, 'app.log'), join(dir, 'marker.log')]
  const wide = Buffer.from('\ufeffa\nb\n', 'utf16le')
  const run = await start({ include: [join(dir, '*')] })
  await settled(run, 1)
  writeFileSync(path, wide)
  await until('it is refused', () => coded(run, 'SLUICE_FILE_UNREADABLE').length === 1)
  writeFileSync(`${path}.1.gz`, gzipSync(wide))
  writeFileSync(path, 'two\n')
  await until('the copy is refused', () => coded(run, 'SLUICE_FILE_UNREADABLE').length === 2)
  await settled(run, 2)
  t.same(run.out.texts(marker), ['one'])
  t.same(run.out.texts(path), ['two'])
  await until('one is left', () => run.value('sluice_files_unreadable') === 1)
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
})

t.test('an archive that is cut off or damaged is read as far as possible, and reported once', async t => {
  const dir = testFolder(t, {})
  const text = asText(Array.from({ length: 20_000 }, (_, i) => `${i} ${Math.sin(i)}`))
  const whole = gzipSync(text)
  const damaged = Buffer.from(whole)
  damaged.fill(0xff, whole.length / 2, whole.length / 2 + 100)
  writeFileSync(join(dir, 'damaged.gz'), damaged)
  writeFileSync(join(dir, 'cut.gz'), whole.subarray(0, whole.length / 2))
  writeFileSync(join(dir, 'nothing.gz'), whole.subarray(0, 12))
  const run = await start({ include: [join(dir, '*.gz')] })
  await until('all to be reported', () => coded(run, 'SLUICE_COPY_DAMAGED').length === 3)
  await run.scanned(5)
  t.equal(coded(run, 'SLUICE_COPY_DAMAGED').length, 3)
  t.equal(run.value('sluice_component_errors_total', { kind: 'copy' }) ?? 3, 3, 'counted')
  const readable = gunzipSync(whole.subarray(0, whole.length / 2), { finishFlush: zlib.constants.Z_SYNC_FLUSH })
  for (const name of ['damaged.gz', 'cut.gz']) {
    const read = run.out.texts(join(dir, name)).join('\n')
    t.ok(read.startsWith(readable.toString().slice(0, -1)), `${name}: ${read.length} of ${readable.length}`)
  }
  t.same(run.out.texts(join(dir, 'nothing.gz')), [])
  // It was still being copied.
  writeFileSync(join(dir, 'cut.gz'), whole)
  await until('the rest', () => run.out.texts(join(dir, 'cut.gz')).join('').length === text.replaceAll('\n', '').length)
  await until('it to be no problem any more', () => run.value('sluice_files_unreadable') === 1)
  await run.stop()
})

t.test('what was seen of a file and is missing in its damaged copy is counted as lost, once', async t => {
  const dir = testFolder(t, { 'app.log': 'line\n' })
  const path = join(dir, 'app.log')
  const options = { include: [path], rotate_wait: '50ms' }
  const first = await start(options)
  await settled(first, 1)
  first.out.hold = true
  appendFileSync(path, asText(Array.from({ length: 20_000 }, (_, i) => `${i} ${Math.sin(i)}`)))
  await first.read(path)
  await first.stop()
  const { size } = statSync(path)
  const whole = gzipSync(readFileSync(path))
  writeFileSync(`${path}.1.gz`, whole.subarray(0, whole.length / 2))
  rmSync(path)
  const next = await start(options, first.checkpoints)
  const lost = () => next.value('sluice_file_lost_bytes_total')
  await until('the rest to be lost', () => lost()! > 0)
  const found = () => next.log.filter(({ msg }) => msg.startsWith('file is gone; searching')).length
  const before = found()
  await next.scanned(20)
  t.equal(found(), before, 'the damaged copy is not read again')
  await next.stop()
  const read = next.out.bytes(path).length
  t.ok(read > 0)
  t.equal(lost(), size - 'line\n'.length - read)
  const last = await start(options, next.checkpoints)
  await last.scanned(20)
  t.equal(last.value('sluice_file_lost_bytes_total'), 0)
  // It was still being copied.
  writeFileSync(`${path}.1.gz`, whole)
  await until('the rest', () => last.out.bytes(path).length === size - 'line\n'.length - read)
  rmSync(`${path}.1.gz`)
  await last.scanned(3)
  t.equal(last.value('sluice_file_lost_bytes_total'), 0)
  await last.stop()
})

t.test('a rest behind more than is inflated in one search is found, and comes before the new file', async t => {
  const filler = `${'x'.repeat(4095)}\n`
  const lines = numbered(0, 2)
  const dir = testFolder(t, { 'app.log': `${lines[0]}\n${filler.repeat((9 * MIB) / filler.length)}${lines[1]}\n` })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const first = await tail(options)
  await until('the last line', () => first.out.lines.at(-1)?.text === lines[1])
  await first.stop()
  appendFileSync(path, 'rest\n')
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path), { level: 1 }))
  // Its inode is not given to the next one.
  renameSync(path, `${path}.old`)
  writeFileSync(path, 'new\n')
  rmSync(`${path}.old`)
  const next = await start(options, first.checkpoints)
  await settled(next, 2)
  t.same(next.out.texts(), ['rest', 'new'])
  await next.stop()
})

for (const format of ['gzip', 'zstd'] as const) {
  t.test(`${format}: a little that inflates to a lot takes little memory`, async t => {
    if (!isReadable(format)) return t.comment('not in this Node.js')
    const dir = testFolder(t, {})
    const path = join(dir, 'bomb')
    const part = Buffer.alloc(256 * MIB)
    writeFileSync(path, format === 'gzip' ? gzipSync(part) : zstdCompressSync(part))
    t.equal(await inflate(path, format, part.length, 100 * MIB), part.length)
  })
}

/** Returns how much could be inflated. Fails if that takes more memory than `most`. */
async function inflate(path: string, format: Format, bytes: number, most: number): Promise<number> {
  const inflated = new Inflated(openSync(path, 'r'), format)
  const room = Buffer.alloc(MIB)
  const before = process.memoryUsage.rss()
  let at = 0
  while (at < bytes && !inflated.ended && !inflated.damage) {
    inflated.budget = MIB
    at += await inflated.read(room)
    const taken = process.memoryUsage.rss() - before
    if (taken > most) throw new Error(`${Math.round(taken / MIB)} MiB`)
  }
  inflated.close()
  return at
}

t.test('zstd is read like gzip, and a rotated file is read on in a .zst copy', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 5)) })
  const path = join(dir, 'app.log')
  const bytes = isReadable('zstd') ? zstdCompressSync : () => Buffer.from('\x28\xb5\x2f\xfd\x04', 'latin1')
  writeFileSync(join(dir, 'old.zst'), Buffer.concat([bytes('old\n'), bytes('older\n')]))
  const options = { include: [join(dir, '*')] }
  const first = await start(options)
  if (!isReadable('zstd')) {
    await until('it to be skipped', () => skipped(first) === 1)
    return await first.stop()
  }
  await settled(first, 7)
  await first.stop()
  appendFileSync(path, asText(numbered(5, 9)))
  writeFileSync(`${path}.1.zst`, bytes(readFileSync(path)))
  writeFileSync(path, asText(numbered(9, 11)))
  writeFileSync(join(dir, 'cut.zst'), bytes(asText(numbered(0, 5000))).subarray(0, -200))
  const next = await start(options, first.checkpoints)
  await until('the end', () => next.out.texts(path).length >= 6 && coded(next, 'SLUICE_COPY_DAMAGED').length === 1)
  await next.scanned(3)
  t.same(next.out.texts(path), numbered(5, 11))
  t.same(next.out.texts(join(dir, 'old.zst')), [])
  await next.stop()
})

for (const format of ['gzip', 'zstd'] as const) {
  t.test(`${format}: padding is skipped, a member after it is read, and anything else is damage`, async t => {
    if (!isReadable(format)) return t.comment('not in this Node.js')
    const path = join(testFolder(t, {}), 'file')
    const compress = format === 'gzip' ? gzipSync : zstdCompressSync
    const [first, second, garbage] = [compress('first\n'), compress('second\n'), Buffer.from('garbage')]
    const [little, much] = [Buffer.alloc(100), Buffer.alloc(100_000)]
    const cases: [parts: Buffer[], text: string, isDamaged: boolean][] = [
      [[first, little], 'first\n', false],
      [[first, second, much], 'first\nsecond\n', false],
      [[first, little, second], 'first\nsecond\n', false],
      [[first, much, second, little, first], 'first\nsecond\nfirst\n', false],
      [[first, garbage, second], 'first\n', true],
      [[first, little, garbage], 'first\n', true],
      [[first, little, second.subarray(0, 5)], 'first\n', true],
    ]
    for (const [parts, text, isDamaged] of cases) {
      writeFileSync(path, Buffer.concat(parts))
      const inflated = new Inflated(openSync(path, 'r'), format)
      const room = Buffer.alloc(100)
      let length = 0
      while (!inflated.ended && !inflated.damage) {
        inflated.budget = MIB
        length += await inflated.read(room.subarray(length))
      }
      t.equal(room.toString('latin1', 0, length), text)
      t.equal(inflated.damage !== undefined, isDamaged, String(inflated.damage))
      inflated.close()
    }
  })
}

t.test('a file that waited unread for a compressed one still waits after a rotation and a restart', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 100)) })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const first = await start(options, undefined, 0)
  await settled(first, 100)
  await first.stop()
  renameSync(path, `${path}.3`)
  writeFileSync(`${path}.2.gz`, gzipSync(asText(numbered(100, 200))))
  writeFileSync(path, asText(numbered(200, 300)))
  const second = await start(options, first.checkpoints, 0)
  await second.scanned(2)
  await second.stop()
  renameSync(path, `${path}.1`)
  writeFileSync(path, asText(numbered(300, 400)))
  const clock = new TestTime()
  const third = await tail(options, first.checkpoints, new Receiver(), clock)
  await third.scanned(3)
  clock.ms = 2000
  await settled(third, 300 - second.out.lines.length)
  t.same([...second.out.texts(), ...third.out.texts()], numbered(100, 400))
  await third.stop()
})
