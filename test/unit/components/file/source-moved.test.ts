import {
  appendFileSync,
  cpSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { testFolder } from '../../../support/folder.js'
import { hideBirthTimes } from '../../../support/habits-of-disks.js'
import { laterFiles, type MemoryCheckpoints, settled, type Tailing, TestTime, tail } from '../../../support/tailing.js'

/** State and logs that were copied to another machine, or restored from a backup, while the daemon was stopped. */

const numbered = (name: string, from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `${name} ${from + i} ${Math.sin(from + i + 1)} ${Math.cos(from + i)}`)
const asText = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('')
const NAMES = ['a.log', 'b.log', 'c.log']
const LINES = 50

/** Copies that were just made are at rest three seconds later. */
function ahead(): TestTime {
  const time = new TestTime()
  time.ms = 3000
  return time
}

interface Former {
  readonly dir: string
  readonly checkpoints: MemoryCheckpoints
  readonly options: { readonly include: string[] }
}

/** A run that read all lines of three files, and has stopped. */
async function readBefore(t: Test, lines = LINES, more: (dir: string, run: Tailing) => unknown = () => {}) {
  const dir = testFolder(t, Object.fromEntries(NAMES.map(name => [name, asText(numbered(name, 0, lines))])))
  const options = { include: [join(dir, '*')] }
  const run = await tail(options, undefined, undefined, ahead())
  await settled(run, 3 * lines)
  await more(dir, run)
  await run.stop()
  await laterFiles(dir)
  return { dir, checkpoints: run.checkpoints, options }
}

/** Replaces the folder by a copy. */
function move({ dir }: Former, preserveTimestamps: boolean): void {
  cpSync(dir, `${dir}-copy`, { recursive: true, preserveTimestamps })
  rmSync(dir, { recursive: true })
  renameSync(`${dir}-copy`, dir)
}

const start = ({ options, checkpoints }: Former) => tail(options, checkpoints, undefined, ahead())

/** The messages about files that were moved, with their counts. */
const reports = (run: Tailing) =>
  run.log
    .filter(({ msg }) => msg.startsWith('no file has its saved device'))
    .map(one => {
      const { level, continued, read_again } = one as typeof one & { continued: number; read_again: number }
      return { level, continued, read_again }
    })

const entriesOf = ({ checkpoints }: Pick<Former, 'checkpoints'>) =>
  (checkpoints.document as { files: { path: string; dev: string; ino: string; reading: string }[] }).files

const readings = (from: Pick<Former, 'checkpoints'>) =>
  Object.fromEntries(entriesOf(from).map(({ path, reading }) => [path, reading]))

/** Runs the source until it has `lines` lines, and returns the report and all texts. */
async function after(former: Former, lines: number) {
  const run = await start(former)
  await settled(run, lines)
  await run.scanned(2)
  const texts = run.out.texts()
  t.equal(run.value('sluice_file_lost_bytes_total') ?? 0, 0)
  await run.stop()
  return { texts: texts.sort(), reports: reports(run), run }
}

const ALL = NAMES.flatMap(name => numbered(name, 0, LINES)).sort()
const INFO = 30
const WARN = 40

for (const keepsTimes of [true, false])
  t.test(`copied ${keepsTimes ? 'with' : 'without'} their times: read on at the saved positions`, async t => {
    const former = await readBefore(t)
    const before = readings(former)
    move(former, keepsTimes)
    appendFileSync(join(former.dir, 'b.log'), 'after\n')
    const first = await after(former, 1)
    t.same(first.texts, ['after'])
    t.same(first.reports, [{ level: INFO, continued: 3, read_again: 0 }])
    t.same(readings(former), before, 'ids stay')
    appendFileSync(join(former.dir, 'b.log'), 'later\n')
    const second = await after(former, 1)
    t.same(second.texts, ['later'])
    t.same(second.reports, [])
  })

t.test('a few lines: read on only if the times show a copy', async t => {
  const former = await readBefore(t, 5)
  move(former, true)
  const past = new Date(statSync(join(former.dir, 'a.log')).birthtimeMs - 60_000)
  utimesSync(join(former.dir, 'b.log'), past, past)
  appendFileSync(join(former.dir, 'c.log'), 'after\n')
  const { texts, reports } = await after(former, 6)
  t.same(texts, [...numbered('c.log', 0, 5), 'after'].sort())
  t.same(reports, [{ level: WARN, continued: 2, read_again: 1 }])
})

for (const [what, change, lines] of [
  [
    'other lines before the position',
    (path: string) => asText([...numbered(path, 0, 40), ...numbered('x', 40, 60)]),
    60,
  ],
  ['fewer lines', (path: string) => asText(numbered(path, 0, 30)), 30],
  ['other first bytes', (path: string) => asText(numbered(`new ${path}`, 0, LINES)), 50],
] as const)
  t.test(`written again, with ${what}: read from the beginning`, async t => {
    const former = await readBefore(t)
    rmSync(former.dir, { recursive: true })
    testFolder(t, Object.fromEntries(NAMES.map(name => [name, change(name)])))
    // The folder was changed after its birth, which shows that the file system stores birth times.
    await laterFiles(former.dir)
    const { texts, reports } = await after(former, 3 * lines)
    t.equal(texts.length, 3 * lines)
    t.same(reports, what === 'other first bytes' ? [] : [{ level: WARN, continued: 0, read_again: 3 }])
  })

t.test('without birth times: read again', async t => {
  hideBirthTimes(t)
  const former = await readBefore(t)
  move(former, true)
  const { texts, reports } = await after(former, 3 * LINES)
  t.same(texts, ALL)
  t.same(reports, [{ level: WARN, continued: 0, read_again: 3 }])
})

t.test('one file is still the saved one: the others were replaced, and are read', async t => {
  const former = await readBefore(t)
  renameSync(join(former.dir, 'a.log'), join(former.dir, '..', 'kept.log'))
  move(former, true)
  // A rotated name.
  renameSync(join(former.dir, '..', 'kept.log'), join(former.dir, 'a.log.1'))
  const { texts, reports } = await after(former, 2 * LINES)
  t.same(
    texts,
    ALL.filter(text => !text.startsWith('a.log')),
  )
  t.same(reports, [])
})

t.test('a few lines, of which some were not delivered: read again, and not counted as lost', async t => {
  const former = await readBefore(t, 5, async (dir, run) => {
    run.out.hold = true
    appendFileSync(join(dir, 'a.log'), 'open\n')
    await settled(run, 16)
  })
  move(former, false)
  const { texts, reports } = await after(former, 16)
  t.same(texts, ['open', ...NAMES.flatMap(name => numbered(name, 0, 5))].sort())
  t.same(reports, [{ level: WARN, continued: 0, read_again: 3 }])
})

t.test('inodes that are equal by chance', async t => {
  const former = await readBefore(t)
  move(former, true)
  const [a, b, c] = NAMES.map(name => entriesOf(former).find(({ path }) => path.endsWith(name))!)
  const found = [a, b, c].map(one => statSync(one!.path, { bigint: true }))
  for (const [i, one] of [a, b, c].entries()) {
    one!.dev = String(found[(i + 1) % 3]!.dev)
    one!.ino = String(found[(i + 1) % 3]!.ino)
  }
  appendFileSync(a!.path, 'after\n')
  const { texts, reports } = await after(former, 1)
  t.same(texts, ['after'])
  t.same(reports, [{ level: INFO, continued: 3, read_again: 0 }])
})

t.test('rotated, copied and compressed files: nothing comes again', async t => {
  const former = await readBefore(t, LINES, async (dir, run) => {
    renameSync(join(dir, 'a.log'), join(dir, 'a.log.1'))
    writeFileSync(join(dir, 'a.log'), asText(numbered('second a', 0, LINES)))
    cpSync(join(dir, 'b.log'), join(dir, 'b.log.1'))
    truncateSync(join(dir, 'b.log'))
    writeFileSync(join(dir, 'c.log.1.gz'), gzipSync(readFileSync(join(dir, 'c.log'))))
    rmSync(join(dir, 'c.log'))
    writeFileSync(join(dir, 'c.log'), 'c\n')
    await settled(run, 4 * LINES + 1)
    await run.scanned(3)
  })
  move(former, true)
  appendFileSync(join(former.dir, 'a.log.1'), 'end of the first\n')
  appendFileSync(join(former.dir, 'b.log'), 'after\n')
  const { texts, reports } = await after(former, 2)
  t.same(texts, ['after', 'end of the first'])
  t.equal(reports.length, 1)
})

t.test('rotated on the new machine before the start: the rest and the new file are read', async t => {
  const former = await readBefore(t)
  move(former, true)
  const path = join(former.dir, 'a.log')
  appendFileSync(path, 'rest\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'new\n')
  const { texts, reports } = await after(former, 2)
  t.same(texts, ['new', 'rest'])
  t.same(reports, [{ level: INFO, continued: 2, read_again: 0 }])
})

t.test('lines that were not delivered before: all of them come', async t => {
  const former = await readBefore(t, LINES, async (dir, run) => {
    run.out.hold = true
    appendFileSync(join(dir, 'a.log'), 'open\n')
    writeFileSync(join(dir, 'd.log'), asText(numbered('d', 0, 3)))
    await settled(run, 3 * LINES + 4)
  })
  move(former, false)
  const { texts, reports } = await after(former, 4)
  t.same(texts, [...numbered('d', 0, 3), 'open'].sort())
  t.same(reports, [{ level: INFO, continued: 3, read_again: 0 }])
})
