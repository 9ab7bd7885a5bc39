import { appendFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import '../../../../src/core/codecs/list.js'
import { compareAge, isRotatedName, mayBeAt } from '../../../../src/components/file/rotation/names.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, MemoryCheckpoints, Receiver, settled, TestTime, tail } from '../../../support/tailing.js'
import { until } from '../../../support/until.js'

const ID = 'a3f0c1'

/** Rotated names of a log, the oldest first, and names that are of other files. */
const SCHEMES: [title: string, log: string, rotated: string[], others: string[]][] = [
  ['logrotate', 'app.log', ['app.log.10.gz', 'app.log.9.zst', 'app.log.2', 'app.log.1'], ['app.log', 'app.log.old']],
  ['logrotate with dateext', 'app.log', ['app.log-20260101.gz', 'app.log-20260102'], ['app.log-new', 'app.log2']],
  ['logrotate with extension', 'app.log', ['app-20260101.log.gz', 'app-20260102.log'], ['app-1.log', 'app-x.log']],
  [
    'kubelet',
    '0.log',
    ['0.log.20240101-120000.gz', '0.log.20240101-130000', '0.log.20240102-000000'],
    ['1.log', '1.log.20240101-120000', '0.log.20240101-120000.tmp'],
  ],
  [
    'Docker',
    `${ID}-json.log`,
    [`${ID}-json.log.3.gz`, `${ID}-json.log.2.gz`, `${ID}-json.log.1`],
    [`${ID}1-json.log.1`, `${ID}-json.log.tmp`],
  ],
]

for (const [title, log, rotated, others] of SCHEMES) {
  t.test(`names: ${title}`, async t => {
    for (const name of rotated) t.ok(isRotatedName(name, log), name)
    for (const name of others) t.notOk(isRotatedName(name, log), name)
    t.same(rotated.toReversed().sort(compareAge), rotated, 'by age')
    t.notOk(mayBeAt(`${log}.1.gz`, { path: log }, false), 'a compressed file is a new one')
  })
}

t.test('an inode alone does not show that a file is the one that was never read', async t => {
  const rows: [later: string, isBlind: boolean, mayBe: boolean][] = [
    ['/logs/app.log.1', false, true],
    ['/logs/app.log.1', true, true],
    ['/logs/app.log.2', true, true],
    ['/logs/app.log', false, true],
    ['/logs/app.log', true, false],
    ['/logs/other.log.tmp', false, true],
    ['/logs/other.log.tmp', true, false],
  ]
  const entry = { path: '/logs/app.log.1', file: '/logs/app.log' }
  for (const [later, isBlind, mayBe] of rows) t.equal(mayBeAt(later, entry, isBlind), mayBe, `${later} ${isBlind}`)
})

type Line = (tag: 'P' | 'F', text: string, stream?: string) => string

/** What the runtimes write: each its own lines, and names of rotated files. */
const RUNTIMES: [decode: string, rotated: string, line: Line][] = [
  [
    'cri',
    '.20260131-120000',
    (tag, text, stream = 'stdout') => `2026-01-31T12:00:00.123456789Z ${stream} ${tag} ${text}\n`,
  ],
  [
    'docker_json',
    '.1',
    (tag, log, stream = 'stdout') =>
      `${JSON.stringify({ log: tag === 'F' ? `${log}\n` : log, stream, time: '2026-01-31T12:00:00.123456789Z' })}\n`,
  ],
]
const joined = (...parts: string[]) => parts.join('').slice(0, -1)

for (const [decode, rotatedName, line] of RUNTIMES) {
  /** The clock is slow: no part is delivered because it waited. */
  const start = (options: object, checkpoints = new MemoryCheckpoints(), out = new Receiver()) => {
    const clock = { ...systemClock, now: () => systemClock.now() / 10 }
    return tail({ decode, ...options }, checkpoints, out, clock)
  }

  for (const isCompressed of [false, true])
    t.test(
      `${decode}: a line in parts goes on in the next file${isCompressed ? ', read from a compressed copy' : ''}`,
      async t => {
        const first = line('F', 'zero') + line('P', 'one, ')
        const dir = testFolder(t, { '0.log': first })
        const path = join(dir, '0.log')
        const options = { include: [path] }
        const run = await start(options)
        await run.read(path)
        if (isCompressed) await run.stop()
        const rotated = `${path}${rotatedName}`
        renameSync(path, rotated)
        if (isCompressed) writeFileSync(`${rotated}.gz`, gzipSync(first))
        if (isCompressed) rmSync(rotated)
        writeFileSync(path, line('P', 'two, ') + line('F', 'three') + line('F', 'four'))
        const next = isCompressed ? await start(options, run.checkpoints, run.out) : run
        await settled(next, 3)
        t.same(next.out.texts(path), [
          joined(line('F', 'zero')),
          joined(line('P', 'one, '), line('P', 'two, '), line('F', 'three')),
          joined(line('F', 'four')),
        ])
        await next.stop()
        const { files } = next.checkpoints.document as { files: { offset: number; tail: { bytes: number } }[] }
        const offsets = files.map(({ offset }) => offset)
        t.ok(offsets.includes(first.length), `all of it is delivered: ${offsets}`)
      },
    )

  t.test(`${decode}: the position after the line is that in its own file`, async t => {
    const dir = testFolder(t, { '0.log': line('P', 'one, ') })
    const path = join(dir, '0.log')
    const run = await start({ include: [path] })
    await run.read(path)
    renameSync(path, `${path}${rotatedName}`)
    writeFileSync(path, line('F', 'two') + line('F', 'three').slice(0, -1))
    await settled(run, 1)
    await run.stop()
    appendFileSync(path, '\n')
    const next = await start({ include: [path] }, run.checkpoints)
    await settled(next, 1)
    t.same(next.out.texts(), [joined(line('F', 'three'))])
    await next.stop()
  })

  t.test(
    `${decode}: a kill, and a batch that comes back, before the line is delivered: it comes again, whole`,
    async t => {
      const dir = testFolder(t, { '0.log': line('P', 'one, ') })
      const path = join(dir, '0.log')
      const whole = joined(line('P', 'one, '), line('F', 'two'))
      const run = await start({ include: [path] })
      await run.read(path)
      run.out.hold = true
      renameSync(path, `${path}${rotatedName}`)
      writeFileSync(path, line('F', 'two') + line('F', 'three'))
      await arrived(run, 2)
      run.out.settle('errored')
      await run.run.catch(() => {})
      const again = run.again()
      await arrived(run, 4)
      t.same(run.out.texts(), [whole, joined(line('F', 'three')), whole, joined(line('F', 'three'))])
      await run.checkpoints.flush()
      await run.kill()
      await again.catch(() => {})
      const next = await start({ include: [path] }, run.checkpoints)
      await settled(next, 2)
      t.same(next.out.texts(), [whole, joined(line('F', 'three'))])
      await next.stop()
    },
  )

  t.test(`${decode}: batches of both files come back long after they were read: the line is joined again`, async t => {
    const [first, second] = [line('F', 'zero') + line('P', 'one, '), line('F', 'two') + line('F', 'three')]
    const lines = [joined(line('F', 'zero')), joined(line('P', 'one, '), line('F', 'two')), joined(line('F', 'three'))]
    const dir = testFolder(t, { '0.log': first })
    const path = join(dir, '0.log')
    let passed = 0
    const clock = { ...systemClock, now: () => systemClock.now() / 10 + passed }
    const run = await tail({ include: [path], decode }, undefined, new Receiver(), clock)
    const again = async () => {
      await t.rejects(run.run, /was not delivered/)
      run.again().catch(() => {})
    }
    run.out.hold = true
    await run.read(path)
    renameSync(path, `${path}${rotatedName}`)
    writeFileSync(path, second)
    await arrived(run, 3)
    passed += 3_600_000
    run.out.settle('errored', 1)
    await again()
    await arrived(run, 6)
    // The batch of the second file that was sent first settles only now, when the parts are in another one.
    run.out.settle('delivered', 2)
    run.out.settle('errored')
    await again()
    await arrived(run, 8)
    run.out.hold = false
    run.out.settle()
    await run.scanned()
    t.same(run.out.texts(), [...lines, ...lines, ...lines.slice(1)])
    await run.stop()
    const { files } = run.checkpoints.document as { files: { offset: number }[] }
    t.same(new Set(files.map(({ offset }) => offset)), new Set([first.length, second.length]))
  })

  t.test(`${decode}: lines of the other stream are between the parts, also in the next file`, async t => {
    const dir = testFolder(t, { '0.log': line('P', 'one, ') + line('P', 'error, ', 'stderr') })
    const path = join(dir, '0.log')
    const run = await start({ include: [path] })
    await run.read(path)
    renameSync(path, `${path}${rotatedName}`)
    writeFileSync(path, line('F', 'two') + line('F', 'three') + line('F', 'four', 'stderr') + line('F', 'five'))
    await settled(run, 4)
    t.same(run.out.texts(), [
      joined(line('P', 'one, '), line('F', 'two')),
      joined(line('P', 'error, ', 'stderr'), line('F', 'four', 'stderr')),
      joined(line('F', 'three')),
      joined(line('F', 'five')),
    ])
    await run.stop()
    const next = await start({ include: [path] }, run.checkpoints)
    appendFileSync(path, line('F', 'six'))
    await settled(next, 1)
    t.same(next.out.texts(), [joined(line('F', 'six'))])
    await next.stop()
  })

  t.test(`${decode}: a kill between parts of both streams: all that is unfinished is read again, once`, async t => {
    const [zero, rest] = [line('F', 'zero') + line('F', 'error', 'stderr'), line('F', 'six')]
    const mixed = [line('P', 'one, '), line('F', 'two', 'stderr'), line('P', 'three, ', 'stderr')]
    // Longer than the bytes before a position that are compared.
    const ends = [line('F', 'four'.repeat(1000)), line('F', 'five', 'stderr')]
    const dir = testFolder(t, { '0.log': zero + mixed.join('') })
    const path = join(dir, '0.log')
    const run = await start({ include: [path] })
    await settled(run, 2)
    await run.read(path)
    await run.checkpoints.flush()
    await run.kill()
    t.same(run.out.texts(), [zero, ''].join('').split('\n').slice(0, 2))
    appendFileSync(path, ends.join('') + line('P', 'unfinished'))
    const next = await start({ include: [path] }, run.checkpoints)
    await settled(next, 3)
    t.same(next.out.texts(), [joined(mixed[0]!, ends[0]!), joined(mixed[1]!), joined(mixed[2]!, ends[1]!)])
    await next.checkpoints.flush()
    await next.kill()
    appendFileSync(path, rest)
    const last = await start({ include: [path] }, run.checkpoints)
    await settled(last, 1)
    t.same(last.out.texts(), [joined(line('P', 'unfinished'), rest)])
    await last.stop()
  })

  t.test(`${decode}: no line waits longer than a second for the other stream, even if lines follow it`, async t => {
    const dir = testFolder(t, { '0.log': line('P', 'one, ') })
    const path = join(dir, '0.log')
    const time = new TestTime()
    const run = await tail({ include: [path], decode }, undefined, new Receiver(), time)
    await run.read(path)
    for (let n = 0; n < 20 && run.out.texts().length === 0; n++) {
      appendFileSync(path, line('F', `${n}`, 'stderr'))
      await run.read(path)
      time.ms += 400
      await run.scanned()
    }
    t.same(run.out.texts().slice(0, 2), [joined(line('P', 'one, ')), joined(line('F', '0', 'stderr'))])
    await run.stop()
  })

  t.test(`${decode}: the first part is in a deleted file when the daemon stops: it is delivered before`, async t => {
    const dir = testFolder(t, { '0.log': line('P', 'one, ') })
    const path = join(dir, '0.log')
    const run = await start({ include: [path] })
    await run.read(path)
    renameSync(path, `${path}${rotatedName}`)
    writeFileSync(path, line('P', 'two, '))
    await run.scanned(2)
    await run.read(path)
    rmSync(`${path}${rotatedName}`)
    await run.stop()
    t.same(run.out.texts(), [joined(line('P', 'one, '), line('P', 'two, '))])
    appendFileSync(path, line('F', 'three'))
    const next = await start({ include: [path] }, run.checkpoints)
    await settled(next, 1)
    t.same(next.out.texts(), [joined(line('F', 'three'))])
    await next.stop()
  })
}

t.test('the position of a rotated file that is still there is kept for weeks', async t => {
  const dir = testFolder(t, { '0.log': 'one\n' })
  const path = join(dir, '0.log')
  const time = new TestTime()
  const run = await tail({ include: [join(dir, '*.log')], rotate_wait: '10ms' }, undefined, undefined, time)
  await settled(run, 1)
  renameSync(path, `${path}.20260101-120000`)
  writeFileSync(path, 'two\n')
  await settled(run, 2)
  await until('it to be let go', () => run.value('sluice_files_watched') === 1)
  for (let day = 0; day < 10; day++) {
    time.ms += 24 * 3_600_000
    await run.scanned()
  }
  await run.stop()
  const { files } = run.checkpoints.document as { files: { ino: string }[] }
  const inodes = [path, `${path}.20260101-120000`].map(one => String(statSync(one).ino))
  t.same(files.map(({ ino }) => ino).sort(), inodes.sort())
})
