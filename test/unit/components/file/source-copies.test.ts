import { execFileSync } from 'node:child_process'
import fs, {
  appendFileSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { testFolder } from '../../../support/folder.js'
import { hideBirthTimes, refuseWatches } from '../../../support/habits-of-disks.js'
import { longTest } from '../../../support/long-test.js'
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

const numbered = (from: number, to: number, more = '') =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}${more}`)
const asText = (lines: string[]) => lines.map(line => `${line}\n`).join('')

/** As gzip does it: the copy has the times of the file, which is gone then. */
function compress(path: string, to = `${path}.gz`, zip: (bytes: Buffer) => Buffer = bytes => gzipSync(bytes)): void {
  const bytes = readFileSync(path)
  const changed = new Date()
  writeFileSync(to, zip(bytes))
  utimesSync(to, changed, changed)
  unlinkSync(path)
}

/** Ten lines are read of app.log, then two more are written while nothing runs. */
async function stopped(t: Test, first = asText(numbered(0, 10)), rest = asText(numbered(10, 12))) {
  const dir = testFolder(t, { 'app.log': first })
  const path = join(dir, 'app.log')
  const options = { include: [join(dir, '*.log')], exclude: ['*.gz'], rotate_wait: '50ms', scan_interval: '20ms' }
  const run = await tail(options)
  await settled(run, first.split('\n').length - 1)
  await run.stop()
  appendFileSync(path, rest)
  return { dir, path, options, checkpoints: run.checkpoints }
}

interface Case {
  readonly title: string
  /** What happens to the file at `path` while nothing runs. */
  readonly act: (path: string) => void
  /** What comes then of lines, in this order. */
  readonly expected: readonly string[]
  readonly first?: string
  readonly rest?: string
  /** Damages told. */
  readonly damaged?: number
}

const NEW = ['new 0', 'new 1']
const renew = (path: string) => writeFileSync(path, asText(NEW))
const REST = numbered(10, 12)
const HEADER = 'the same first line everywhere\n'

const CASES: readonly Case[] = [
  {
    title: 'numbered',
    act: path => {
      renameSync(path, `${path}.1`)
      renew(path)
      compress(`${path}.1`)
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'dated, in place, with nothing in its place',
    act: path => compress(path, `${path}-20260101.gz`),
    expected: REST,
  },
  {
    title: 'an inode that may be given to the new file',
    act: path => {
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'the original was kept',
    act: path => {
      renameSync(path, `${path}.1`)
      writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(`${path}.1`)))
      renew(path)
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'copied, truncated, and the copy compressed',
    act: path => {
      copyFileSync(path, `${path}.1`)
      truncateSync(path)
      compress(`${path}.1`)
      appendFileSync(path, asText(NEW))
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'in members, some of them empty, with padding behind them',
    act: path => {
      compress(path, `${path}.1.gz`, bytes =>
        Buffer.concat([
          gzipSync(''),
          gzipSync(bytes.subarray(0, 30)),
          gzipSync(''),
          gzipSync(bytes.subarray(30)),
          Buffer.alloc(512),
        ]),
      )
      renew(path)
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'a last line without its end',
    rest: 'line 10\nline 11',
    act: path => {
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: [...REST, ...NEW],
  },
  {
    title: 'nothing new in it',
    rest: '',
    act: path => {
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: NEW,
  },
  {
    title: 'twice',
    act: path => {
      compress(path, `${path}.2.gz`)
      writeFileSync(path, 'never seen\n')
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: [...REST, 'never seen', ...NEW],
  },
  {
    title: 'copies of others, before and after it, that begin with the same line',
    first: HEADER,
    act: path => {
      for (const [name, day] of [
        ['.3.gz', -1],
        ['.1.gz', 1],
      ] as const) {
        const at = new Date(Date.now() + day * 86_400_000)
        writeFileSync(path + name, gzipSync(`${HEADER}of another day\n`))
        utimesSync(path + name, at, at)
      }
      compress(path, `${path}.2.gz`)
      renew(path)
    },
    // The later one was rotated after it, and never seen.
    expected: [...REST, HEADER.trimEnd(), 'of another day', ...NEW],
  },
  {
    title: 'empty and damaged copies, and files that are none',
    act: path => {
      writeFileSync(`${path}.7.gz`, '')
      writeFileSync(`${path}.6.gz`, gzipSync(''))
      writeFileSync(`${path}.5.gz`, 'this is no file that gzip made')
      writeFileSync(`${path}.4.gz`, gzipSync(asText(numbered(0, 500))).subarray(0, 30))
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: [...REST, ...NEW],
    damaged: 2,
  },
  {
    title: 'the copy is cut off: what stands before is read',
    rest: asText(numbered(10, 1000)) + asText(Array.from({ length: 3000 }, () => String(Math.random()))),
    act: path => {
      compress(path, `${path}.1.gz`, bytes => {
        const good = gzipSync(bytes.subarray(0, asText(numbered(0, 1000)).length))
        return Buffer.concat([good, gzipSync(bytes).subarray(0, 12)])
      })
      renew(path)
    },
    expected: [...numbered(10, 1000), ...NEW],
    damaged: 1,
  },
  {
    title: 'garbage behind it: what stands before is read',
    act: path => {
      compress(path, `${path}.1.gz`, bytes => Buffer.concat([gzipSync(bytes), Buffer.from('garbage')]))
      renew(path)
    },
    expected: [...REST, ...NEW],
    damaged: 1,
  },
  {
    title: 'a first line that is longer than what is compared',
    first: `${'h'.repeat(3000)}\n${asText(numbered(0, 100))}`,
    act: path => {
      writeFileSync(`${path}.9.gz`, gzipSync(`${'h'.repeat(3000)}\n${asText(numbered(200, 900))}`))
      const yesterday = new Date(Date.now() - 86_400_000)
      utimesSync(`${path}.9.gz`, yesterday, yesterday)
      compress(path, `${path}.1.gz`)
      renew(path)
    },
    expected: [...REST, ...NEW],
  },
]

for (const { title, act, expected, first, rest, damaged = 0 } of CASES) {
  t.test(`compressed while nothing ran: ${title}`, async t => {
    const { path, options, checkpoints } = await stopped(t, first, rest)
    act(path)
    const run = await tail(options, checkpoints)
    await settled(run, expected.length)
    t.same(run.out.texts(path), expected)
    t.equal(run.out.lines.length, expected.length, 'under the name it had')
    await until('the copy is let go', () => run.value('sluice_files_watched')! <= 1)
    t.equal(run.log.filter(({ level }) => level >= 50).length, damaged, JSON.stringify(run.log))
    t.equal(run.counters.failures?.get('copy') ?? 0, damaged)
    await run.stop()
    const again = await tail({ ...options, follow: false }, run.checkpoints)
    await again.run
    t.same(again.out.texts(), [], 'nothing comes twice')
    await again.stop()
  })
}

t.test('a file that was empty, or of which nothing was delivered yet', async t => {
  const dir = testFolder(t, { 'app.log': '', 'held.log': asText(numbered(0, 3)) })
  const [path, held] = [join(dir, 'app.log'), join(dir, 'held.log')]
  const options = { include: [join(dir, '*.log')] }
  writeFileSync(`${path}.3.gz`, gzipSync('of before'))
  await laterFiles(dir)
  const out = new Receiver()
  out.hold = true
  const run = await tail(options, undefined, out)
  await settled(run, 3)
  await run.stop()
  await laterFiles(dir)
  writeFileSync(`${path}.audit.1.gz`, gzipSync('of another'))
  appendFileSync(path, asText(REST))
  compress(path, `${path}.2.gz`)
  renew(path)
  appendFileSync(held, 'line 3\n')
  compress(held, `${held}-20260101.gz`)
  writeFileSync(held, asText(numbered(4, 6)))
  const next = await tail({ ...options, follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.texts(path), [...REST, ...NEW])
  t.same(next.out.texts(held), numbered(0, 6))
  t.equal(next.out.lines.length, 10)
  await next.stop()
})

t.test('a byte order mark at the beginning of a file that is read from its copy', async t => {
  const dir = testFolder(t, { 'app.log': `\ufeff${asText(REST)}` })
  const path = join(dir, 'app.log')
  const options = { include: [path] }
  const out = new Receiver()
  out.hold = true
  const run = await tail(options, undefined, out)
  await settled(run, REST.length)
  await run.stop()
  await laterFiles(dir)
  compress(path)
  renew(path)
  const next = await tail({ ...options, follow: false }, run.checkpoints)
  await next.run
  t.same(next.out.texts(path), [...REST, ...NEW])
  await next.stop()
})

t.test('names among the copies that lead nowhere, to themselves or to what is no file', async t => {
  const { dir, path, options, checkpoints } = await stopped(t)
  compress(path, `${path}.1.gz`)
  renew(path)
  const rotated = join(dir, 'other.log.1')
  symlinkSync('aaa.gz', join(dir, 'aaa.gz'))
  symlinkSync('nowhere', join(dir, 'aab.gz'))
  mkdirSync(join(dir, 'aac.gz'))
  execFileSync('mkfifo', [join(dir, 'aad.gz'), join(dir, 'app.log.7')])
  symlinkSync('aae', join(dir, 'aae'))
  writeFileSync(join(dir, 'aae.gz'), gzipSync('its name without .gz leads to itself'))
  symlinkSync('app.log.8', join(dir, 'app.log.8'))
  const run = await tail(options, checkpoints)
  await settled(run, REST.length + NEW.length)
  t.same(run.out.texts(path), [...REST, ...NEW])

  writeFileSync(join(dir, 'other.log'), 'a file that is compressed and gone\n')
  await settled(run, REST.length + NEW.length + 1)
  renameSync(join(dir, 'other.log'), rotated)
  compress(rotated)
  await until('released', () => run.value('sluice_files_watched') === 1)
  await run.stop()
  writeFileSync(join(dir, 'other.log'), '')
  const again = await tail({ ...options, follow: false }, run.checkpoints)
  await again.run
  t.same(again.out.texts(), [], 'nothing comes twice')
  await again.stop()
})

t.test('a folder that leads to itself now keeps no file of another one from being read', async t => {
  const dir = testFolder(t, { a: { 'app.log': 'a 0\n' }, b: { 'app.log': 'b 0\n' } })
  const options = { include: [join(dir, '*/app.log')] }
  const run = await tail(options)
  await settled(run, 2)
  await run.stop()
  renameSync(join(dir, 'a'), join(dir, '.old'))
  symlinkSync('a', join(dir, 'a'))
  appendFileSync(join(dir, 'b/app.log'), 'b 1\n')
  const next = await tail(options, run.checkpoints)
  await settled(next, 1)
  t.same(next.out.texts(), ['b 1'])
  await next.stop()
})

longTest('many copies: few of them are open at a time', async t => {
  const names = Array.from({ length: 60 }, (_, i) => `${i}.log`)
  const rest = numbered(1, 12_000, ` ${'x'.repeat(60)}`)
  const dir = testFolder(t, Object.fromEntries(names.map(name => [name, `of ${name}\n`])))
  const options = { include: [join(dir, '*.log')], follow: false }
  const run = await tail(options)
  await run.run
  await run.stop()
  for (const name of names) {
    appendFileSync(join(dir, name), asText(rest))
    compress(join(dir, name))
    writeFileSync(join(dir, name), 'new\n')
  }
  let most = 0
  const out = new (class extends Receiver {
    override send(batch: EventBatch): Promise<void> {
      most = Math.max(most, copiesOpen())
      return super.send(batch)
    }
  })()
  const next = await tail(options, run.checkpoints, out)
  await next.run
  const expected = asText([...rest, 'new'])
  // Not as lists of lines: comparing these takes the test ten times as long.
  for (const name of names) t.ok(asText(out.texts(join(dir, name))) === expected, name)
  t.ok(most <= 16, `${most} copies were open`)
  await next.stop()
  await until('all of them are closed', () => copiesOpen() === 0)
})

function copiesOpen(): number {
  const target = (fd: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  }
  return readdirSync('/proc/self/fd').filter(fd => target(fd).endsWith('.gz')).length
}

const open = (run: Tailing) => run.value('sluice_files_open')

t.test('killed in the middle of a copy: it goes on there, and the new file still comes after it', async t => {
  const lines = numbered(10, 60_000, ` ${'x'.repeat(40)}`)
  const { path, options, checkpoints } = await stopped(t, undefined, asText(lines))
  compress(path, `${path}.1.gz`)
  renew(path)
  const out = new Receiver()
  out.hold = true
  const first = await tail(options, checkpoints, out)
  await until('the first batch', () => out.held.length > 0)
  out.settle('delivered', out.held.length)
  const had = out.lines.length
  await checkpoints.flush()
  await first.kill()
  t.same(out.texts(), lines.slice(0, out.lines.length))
  const next = await tail(options, checkpoints)
  await settled(next, 60_002 - 10 - had)
  const texts = next.out.texts(path)
  t.equal(texts.length, 60_000 - 10 - had + 2, 'what was settled does not come again')
  t.same(texts, [...lines.slice(had), ...NEW])
  await next.stop()
})

t.test('a batch that is given back is read again from the copy', async t => {
  const { path, options, checkpoints } = await stopped(t)
  compress(path, `${path}.1.gz`)
  renew(path)
  const run = await tail(options, checkpoints)
  run.out.hold = true
  await until('the first batch', () => run.out.held.length > 0)
  run.out.settle('errored')
  await t.rejects(run.run)
  run.out.hold = false
  void run.again()
  await until('the new file', () => NEW.every(line => run.out.texts().includes(line)))
  await until('the copy is let go', () => run.value('sluice_files_watched') === 1)
  t.same(
    run.out.texts().filter(line => line.startsWith('line')),
    [...REST, ...REST],
  )
  await run.stop()
})

t.test('files with the same content each have their own copy', async t => {
  const names = ['a.log', 'b.log', 'c.log']
  const dir = testFolder(t, Object.fromEntries(names.map(name => [name, asText(numbered(0, 10))])))
  const options = { include: [join(dir, '*.log')], follow: false }
  const run = await tail(options)
  await run.run
  await run.stop()
  for (const [i, name] of names.entries()) {
    const path = join(dir, name)
    appendFileSync(path, asText(numbered(10, 10 + i)))
    compress(path)
  }
  const next = await tail(options, run.checkpoints)
  await next.run
  await next.stop()
  for (const [i, name] of names.entries()) t.same(next.out.texts(join(dir, name)), numbered(10, 10 + i), name)
})

for (const isRead of [false, true])
  t.test(
    `a file that began like another does not take its copy, which was ${isRead ? '' : 'not '}read before`,
    async t => {
      const dir = testFolder(t, { 'a.log': HEADER, 'b.log': HEADER })
      const path = join(dir, 'b.log')
      const options = { include: [join(dir, '*.log')], scan_interval: '20ms' }
      const run = await tail(options)
      await settled(run, 2)
      if (isRead) appendFileSync(path, asText(REST))
      if (isRead) await settled(run, 4)
      await run.stop()
      if (!isRead) appendFileSync(path, asText(REST))
      // The file is found under another name, beside its copy.
      linkSync(path, join(dir, 'b.link'))
      unlinkSync(join(dir, 'a.log'))
      compress(path, `${path}.1.gz`)
      writeFileSync(path, asText(NEW))
      const next = await tail(options, run.checkpoints)
      await settled(next, isRead ? 2 : 4)
      await next.scanned(3)
      t.same(next.out.texts(), isRead ? NEW : [...REST, ...NEW])
      await next.stop()
    },
  )

t.test('a truncated file of which only a first line was read does not take the copy of another', async t => {
  const dir = testFolder(t, { 'a.log': HEADER, 'b.log': HEADER })
  const path = join(dir, 'b.log')
  const run = await tail({ include: [join(dir, '*.log')], scan_interval: '20ms' })
  await settled(run, 2)
  appendFileSync(path, asText(REST))
  compress(path, `${path}.1.gz`)
  truncateSync(join(dir, 'a.log'))
  await settled(run, 4)
  appendFileSync(join(dir, 'a.log'), 'after\n')
  await settled(run, 5)
  await run.scanned(3)
  t.same(run.out.texts().slice(2), [...REST, 'after'])
  await run.stop()
})

t.test('a file that was closed to save descriptors, and compressed before it was looked at again', async t => {
  const dir = testFolder(t, { 'a.log': asText(numbered(0, 10)), 'b.log': 'b\n' })
  const [a, b] = [join(dir, 'a.log'), join(dir, 'b.log')]
  const options = { include: [join(dir, '*.log')], max_open_files: 1, scan_interval: '50ms', rotate_wait: '100ms' }
  const run = await tail(options)
  await settled(run, 11)
  for (let i = 0; i < 3; i++) {
    appendFileSync(b, 'b\n')
    await until('the other is closed', () => open(run) === 1 && run.out.texts(b).length === i + 2)
    appendFileSync(a, `${i}\n`)
    compress(a, `${a}.${i}.gz`)
    writeFileSync(a, `new ${i}\n`)
    await until(() => run.out.texts(a).includes(`new ${i}`) && run.out.texts(a).includes(String(i)), {
      show: () => `rest ${i}: ${JSON.stringify([run.out.texts(), run.log])}`,
    })
  }
  await until('copies are let go', () => run.value('sluice_files_watched') === 2)
  t.same(run.out.texts(a), [...numbered(0, 10), '0', 'new 0', '1', 'new 1', '2', 'new 2'])
  await run.stop()
})

t.test('a copy made while lines were still written is not read again, one that only begins alike is', async t => {
  const banner = `# ${'the header of every file '.repeat(50)}`
  const dir = testFolder(t, { 'app.log': asText([banner, ...numbered(0, 100)]) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '20ms' })
  await settled(run, 101)
  await laterFiles(dir)
  renameSync(path, `${path}.1`)
  writeFileSync(path, asText(['of the new one']))
  const bytes = readFileSync(`${path}.1`)
  writeFileSync(`${path}.1.gz`, gzipSync(bytes))
  appendFileSync(`${path}.1`, asText(numbered(100, 110)))
  unlinkSync(`${path}.1`)
  await laterFiles(dir)
  writeFileSync(`${path}.2.gz`, gzipSync(String(bytes).replaceAll('line', 'LINE')))
  await settled(run, 101 + 10 + 1 + 101)
  t.equal(run.out.texts().filter(text => text.startsWith('line')).length, 110, 'each once')
  t.equal(run.out.texts().filter(text => text.startsWith('LINE')).length, 100)
  await run.stop()
})

t.test('of two copies of the same time, size and beginning none is taken for the other', async t => {
  const banner = `# ${'the header of every file '.repeat(50)}`
  const dir = testFolder(t, { 'app.log': asText([banner, ...numbered(0, 100)]) })
  const path = join(dir, 'app.log')
  const run = await tail({ include: [path], scan_interval: '20ms' })
  await settled(run, 101)
  await laterFiles(dir)
  // Nothing more is read of the open file until the copies have been judged.
  let go = () => {}
  run.out.room = new Promise(resolve => (go = resolve))
  renameSync(path, `${path}.1`)
  const text = readFileSync(`${path}.1`, 'utf8')
  const copies = [`${path}.1.gz`, `${path}.2.gz`] as const
  writeFileSync(copies[0], gzipSync(text))
  writeFileSync(copies[1], gzipSync(text.replaceAll('line', 'LINE')))
  for (const copy of copies) utimesSync(copy, new Date(), statSync(copies[1]).mtime)
  appendFileSync(`${path}.1`, asText(numbered(100, 110)))
  unlinkSync(`${path}.1`)
  writeFileSync(path, asText(['of the new one']))
  await until('the copy', () => run.log.some(({ copy }) => copy === copies[1]))
  go()
  await until('all lines', () => new Set(run.out.texts()).size === 1 + 100 + 10 + 1 + 100)
  await run.stop()
})

t.test('a copy of very much takes time, and no other file waits for it', async t => {
  const { dir, path, options, checkpoints } = await stopped(t)
  const other = join(dir, 'other.log')
  // A gigabyte of zeros, in members of 16 MiB, before anything that is known.
  const zeros = gzipSync(Buffer.alloc(16 * 1024 * 1024))
  const head = gzipSync(asText(numbered(0, 10)).slice(0, -1))
  writeFileSync(`${path}.zeros.gz`, Buffer.concat([head, ...Array.from({ length: 64 }, () => zeros)]))
  unlinkSync(path)
  const run = await tail(options, checkpoints)
  const before = process.memoryUsage.rss()
  writeFileSync(other, 'other\n')
  await settled(run, 1)
  t.same(run.out.texts(), ['other'])
  // The copy is still being searched.
  await run.scanned(10)
  t.ok(process.memoryUsage.rss() - before < 150 * 1024 * 1024, 'memory is bounded')
  await run.stop()
})

t.test('a copy is read while the file before it waits for all copies to be found', async t => {
  const dir = testFolder(t, { 'a.log': 'one, of some length\n' })
  const [a, b] = [join(dir, 'a.log'), join(dir, 'b.log')]
  const options = { include: [a, b] }
  const checkpoints = new MemoryCheckpoints()
  // What came is not delivered, and comes again at the next start.
  const undelivered = async (lines: number) => {
    const out = new Receiver()
    out.hold = true
    const run = await tail(options, checkpoints, out)
    await settled(run, lines)
    await run.stop()
  }
  await undelivered(1)
  renameSync(a, `${a}.1`)
  writeFileSync(a, 'two\n')
  writeFileSync(b, 'three\n')
  await undelivered(3)
  compress(`${a}.1`)
  renameSync(a, `${a}.swapped`)
  renameSync(b, a)
  renameSync(`${a}.swapped`, b)
  const run = await tail(options, checkpoints)
  await settled(run, 3)
  t.same(run.out.texts(a), ['one, of some length', 'two'])
  t.same(run.out.texts(b), ['three'])
  await run.stop()
})

/** Acts just before the source opens the file at `path` for the `count`th time. */
function atOpen(t: Test, path: string, count: number, act: () => void): void {
  const { openSync } = fs
  const undo = () => Object.assign(fs, { openSync })
  t.teardown(undo)
  let left = count
  fs.openSync = (...args) => {
    if (args[0] === path && --left === 0) {
      undo()
      act()
    }
    return openSync(...args)
  }
}

t.test('a compressed file is overwritten by that of a file that was read, just before it is read', async t => {
  const { dir, path, options, checkpoints } = await stopped(t, undefined, '')
  await laterFiles(dir)
  const copy = `${path}.1.gz`
  writeFileSync(copy, gzipSync('never seen\n'))
  // It is opened to be compared, and then to be read.
  atOpen(t, copy, 2, () => {
    copyFileSync(copy, `${path}.2.gz`)
    writeFileSync(copy, gzipSync(readFileSync(path)))
    unlinkSync(path)
  })
  const run = await tail(options, checkpoints)
  await settled(run, 1)
  await run.scanned(3)
  t.same(run.out.texts(), ['never seen'])
  await run.stop()
})

t.test('an unfinished line goes on in a copy that is renamed just before it is opened', async t => {
  const path = join(testFolder(t, { 'app.log': 'line 0\nhalf' }), 'app.log')
  const run = await tail({ include: [path], rotate_wait: '1h' })
  await run.read(path)
  // It is opened to be compared, and then to be read.
  atOpen(t, `${path}.1`, 2, () => renameSync(`${path}.1`, `${path}.2`))
  appendFileSync(path, ' of a line\n')
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  await settled(run, 2)
  t.same(run.out.texts(), ['line 0', 'half of a line'])
  await run.stop()
})

t.test('the copy with the rest is gone: a shorter one is known, and the rest is read from the next one', async t => {
  const dir = testFolder(t, { 'app.log': asText(numbered(0, 20)), away: {} })
  const path = join(dir, 'app.log')
  const options = { include: [`${path}*`], exclude: ['*.gz'], rotate_wait: '1h' }
  const first = await tail(options)
  await settled(first, 20)
  await first.stop()
  appendFileSync(path, asText(numbered(20, 22)))
  compress(path, `${path}.1.gz`)
  const out = new Receiver()
  out.hold = true
  const run = await tail(options, first.checkpoints, out)
  await arrived(run, 2)
  renameSync(`${path}.1.gz`, join(dir, 'away', 'gz'))
  out.settle('errored')
  await t.rejects(run.run)
  out.hold = false
  void run.again()
  await run.scanned(5)
  writeFileSync(`${path}.3`, asText(numbered(0, 10)))
  await run.scanned(5)
  t.same(out.texts(), numbered(20, 22))
  renameSync(join(dir, 'away', 'gz'), `${path}.2.gz`)
  await settled(run, 4)
  t.same(out.texts(), [...numbered(20, 22), ...numbered(20, 22)])
  await run.stop()
})

t.test('without birth times, a rotated file and its compressed copy in the making are read once', async t => {
  hideBirthTimes(t)
  const { dir, path, options, checkpoints } = await stopped(t, undefined, '')
  await laterFiles(dir)
  renameSync(path, `${path}.2`)
  writeFileSync(`${path}.1`, 'never seen\n')
  writeFileSync(`${path}.1.gz`, gzipSync('never seen\n'))
  renew(path)
  const clock = new TestTime()
  // Nobody has written to it for a second.
  clock.ms = 1000
  const run = await tail(options, checkpoints, new Receiver(), clock)
  await settled(run, 3)
  await run.scanned(3)
  t.same(run.out.texts(), ['never seen', ...NEW])
  await run.stop()
})

const BANNER = `# ${'the header of every file '.repeat(50)}`

t.test('a batch comes back from a copy that is gone, and another file that begins alike has its inode', async t => {
  hideBirthTimes(t)
  const dir = testFolder(t, { 'app.log': asText([BANNER, ...numbered(0, 10)]) })
  const [path, other] = [join(dir, 'app.log'), join(dir, 'other.log')]
  const options = { include: [path, other] }
  const first = await tail(options)
  await settled(first, 11)
  await first.stop()
  appendFileSync(path, asText(REST))
  compress(path, `${path}.1.gz`)
  const out = new Receiver()
  out.hold = true
  const run = await tail(options, first.checkpoints, out)
  await arrived(run, 2)
  out.hold = false
  // The inode of the copy goes to another file.
  renameSync(`${path}.1.gz`, other)
  writeFileSync(other, asText([BANNER, ...numbered(0, 100, ' of another file')]))
  await settled(run, 2 + 101)
  out.settle('errored')
  await t.rejects(run.run)
  void run.again()
  await run.scanned(5)
  t.equal(out.texts(other).length, 101)
  await run.stop()
})

t.test(
  'a rotated name that a copy had before it was compressed: the copy is known although its original grew',
  async t => {
    refuseWatches(t)
    const lines = (from: number, to: number) => asText(numbered(from, to))
    const dir = testFolder(t, {
      'app.log': lines(0, 500),
      'app.log.1': 'an older line that is long enough to be compared with others\n',
    })
    const path = join(dir, 'app.log')
    const time = new TestTime()
    const options = { include: [join(dir, '*.log*')], exclude: ['*.gz'], scan_interval: '300ms', rotate_wait: '1h' }
    const run = await tail(options, undefined, undefined, time)
    await settled(run, 501)
    let release = () => {}
    run.out.room = new Promise(resolve => (release = resolve))
    appendFileSync(path, lines(500, 501))
    await arrived(run, 502)
    // While nothing can be sent, the file is copied and written again, and the copy is compressed.
    appendFileSync(path, lines(501, 600))
    renameSync(`${path}.1`, `${path}.2`)
    writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
    writeFileSync(path, lines(1000, 2000))
    time.ms = 3000
    await run.scanned(3)
    release()
    await settled(run, 1601)
    await run.scanned(3)
    t.equal(run.out.lines.length, 1601)
    t.equal(new Set(run.out.texts()).size, 1601)
    await run.stop()
  },
)
