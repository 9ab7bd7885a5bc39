import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { until } from '../support/until.js'

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/lib/systemd:/lib/systemd` }
const BOOT = '0123456789abcdef0123456789abcdef'
/** Microseconds since the epoch. */
const FIRST = 1_763_640_000_000_000

type Fields = readonly (readonly [name: string, value: string | Buffer])[]

/** An entry in the export format of the journal. */
function exported(n: number, fields: Fields, boot = BOOT): Buffer {
  const parts = [`__REALTIME_TIMESTAMP=${FIRST + n * 1000}\n__MONOTONIC_TIMESTAMP=${n * 1000}\n_BOOT_ID=${boot}\n`]
  const bytes = [Buffer.from(parts.join(''))]
  for (const [name, value] of fields) {
    const length = Buffer.alloc(8)
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(value)))
    bytes.push(Buffer.from(`${name}\n`), length, Buffer.from(value as string), Buffer.from('\n'))
  }
  return Buffer.concat([...bytes, Buffer.from('\n')])
}

const numbered = (from: number, to: number, boot?: string) =>
  Buffer.concat(Array.from({ length: to - from }, (_, i) => exported(from + i, [['MESSAGE', `m${from + i}`]], boot)))

/** Journal files in a folder, written by a program of systemd. */
class Journal {
  readonly folder: string
  readonly #writer: string

  constructor(folder: string, writer: string) {
    this.folder = folder
    this.#writer = writer
    mkdirSync(folder, { recursive: true })
  }

  append(entries: Buffer, file = 'system.journal'): void {
    execFileSync(this.#writer, ['--output', join(this.folder, file), '-'], { input: entries, stdio: 'pipe', env })
  }
}

function journalOf(t: Test): { journal: Journal; folder: string } | undefined {
  const writer = needs(t, 'systemd-journal-remote', env)
  if (!writer || !needs(t, 'journalctl')) return undefined
  const folder = testFolder(t)
  return { journal: new Journal(join(folder, 'journal'), writer), folder }
}

const config = (options: string) => `
sources: { j: { type: journald, directory: ./journal, ${options} } }
destinations: { out: { type: file, inputs: [j], path: ./out.log } }
`

const written = (folder: string) =>
  existsSync(join(folder, 'out.log'))
    ? readFileSync(join(folder, 'out.log'), 'utf8')
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line))
    : []
const messages = (folder: string) => written(folder).map(({ message }) => message)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => `m${i}`)

t.test('followed through rotation, an end, a kill and the removal of files', async t => {
  const { journal, folder } = journalOf(t) ?? {}
  if (!journal || !folder) return
  // What the machine has logged before it started again is not left out.
  journal.append(numbered(0, 50, BOOT.replace('0', 'f')))
  /** Of the last of these entries, in seconds. */
  const age = () => (Date.now() - (FIRST / 1000 + 49)) / 1000
  const least = age()
  const first = await startDaemon(t, folder, config(''))
  await first.until(() => messages(folder).length === 50)
  const lag = (await first.scrape()).sum('sluice_journal_lag_seconds')
  t.ok(lag >= least - 1 && lag <= age() + 1, `${lag} s behind, as its entries are old`)
  journal.append(numbered(50, 60))
  await first.until(() => messages(folder).length === 60)
  // As journald does when it rotates.
  renameSync(join(journal.folder, 'system.journal'), join(journal.folder, 'system@0.journal'))
  journal.append(numbered(60, 70))
  await first.until(() => messages(folder).length === 70)
  t.match(await first.stop(t), { received: 70, passed: 70, undelivered: 0 })
  journal.append(numbered(70, 80))

  const second = await startDaemon(t, folder, config(''))
  await second.until(() => messages(folder).length === 80)
  t.same(messages(folder), upTo(80), 'nothing lost, nothing repeated')
  const saved = () => fileText(join(folder, 'state/checkpoints/j.json'))
  journal.append(numbered(80, 85))
  const newest = ['--directory', journal.folder, '--lines', '1', '-o', 'json']
  const { __CURSOR: cursor } = JSON.parse(execFileSync('journalctl', newest, { encoding: 'utf8' }))
  await second.until(() => messages(folder).length === 85 && saved()?.includes(cursor))
  const [child] = readFileSync(`/proc/${second.pid}/task/${second.pid}/children`, 'utf8').trim().split(' ').map(Number)
  t.match(readFileSync(`/proc/${child}/comm`, 'utf8'), /^journalctl/)
  second.child.kill('SIGKILL')
  await second.exit
  const gone = () => spawnSync('test', ['-e', `/proc/${child}/exe`]).status !== 0
  await until('journalctl to end with who started it', gone)

  // The files with the last entry that was read are removed, and newer ones are there.
  journal.append(numbered(90, 95), 'system@1.journal')
  for (const name of readdirSync(journal.folder)) if (name !== 'system@1.journal') rmSync(join(journal.folder, name))
  const third = await startDaemon(t, folder, config(''))
  await third.until(() => messages(folder).length === 90)
  t.same(messages(folder).slice(-5), ['m90', 'm91', 'm92', 'm93', 'm94'], 'none of what is there is left out')
  const scrape = await third.scrape()
  t.equal(scrape.sum('sluice_journal_lost_positions_total'), 1)
  t.match(third.stderr, /SLUICE_JOURNAL_POSITION_LOST/)
  t.match(await third.stop(t), { received: 5 })
})

t.test('filters, and odd entries', async t => {
  const { journal, folder } = journalOf(t) ?? {}
  if (!journal || !folder) return
  const unit = (name: string) => ['_SYSTEMD_UNIT', name] as const
  journal.append(
    Buffer.concat([
      exported(0, [['MESSAGE', 'quiet'], ['PRIORITY', '6'], unit('cron.service')]),
      exported(1, [['MESSAGE', 'loud'], ['PRIORITY', '3'], unit('cron.service'), ['_HOSTNAME', 'web-1']]),
      exported(2, [
        ['MESSAGE', 'kernel'],
        ['PRIORITY', '2'],
        ['_TRANSPORT', 'kernel'],
      ]),
      exported(3, [['MESSAGE', Buffer.from([0x62, 0xff])], ['PRIORITY', '3'], unit('odd.service')]),
      exported(4, [['MESSAGE', 'one\ntwo'], ['A', '1'], ['A', '2'], ['PRIORITY', '3'], unit('odd.service')]),
      exported(5, [['MESSAGE', 'x'.repeat(20_000)], ['PRIORITY', '3'], unit('odd.service')]),
      exported(6, [['MESSAGE', 'x'.repeat(200_000)], ['PRIORITY', '3'], unit('odd.service'), ['B', 'b']]),
    ]),
  )
  const table: [options: string, check: (events: Record<string, unknown>[]) => void][] = [
    ['units: [cron]', events => t.match(events, [{ message: 'quiet', unit: 'cron.service' }, { message: 'loud' }])],
    [
      'units: [cron.service], priority: err',
      events => t.match(events, [{ message: 'loud', severity: 'err', host: 'web-1' }]),
    ],
    ['matches: [_TRANSPORT=kernel]', events => t.match(events, [{ message: 'kernel', severity_code: 2 }])],
    [
      'units: [odd], max_entry_bytes: 64KiB, include_fields: [A, B]',
      ([bytes, lines, long, longer]) => {
        t.match(bytes, { message: 'b\ufffd', raw: 'Yv8=', timestamp: '2025-11-20T12:00:00.003000Z' })
        t.match(lines, { message: 'one\ntwo', A: ['1', '2'] })
        t.match(long?.message, /^x{20000}$/)
        t.match(longer, { message: /^x{10000,20000}$/, truncated: ['MESSAGE'], B: 'b' })
      },
    ],
  ]
  const sources = table.map(([options], i) => `  j${i}: { type: journald, directory: ./journal, ${options} }`)
  const destinations = table.map((_, i) => `  out${i}: { type: file, inputs: [j${i}], path: ./${i}/out.log }`)
  const daemon = await startDaemon(
    t,
    folder,
    `sources:\n${sources.join('\n')}\ndestinations:\n${destinations.join('\n')}\n`,
  )
  const of = (i: number) => written(join(folder, String(i)))
  await daemon.until(() => table.reduce((sum, _, i) => sum + of(i).length, 0) >= 8)
  for (const [i, [options, check]] of table.entries()) {
    check(of(i))
    t.equal(of(i).length, [2, 1, 1, 4][i], options)
  }
  t.match(await daemon.stop(t), { received: 8 })

  const where = ['--directory', journal.folder, '--unit', 'odd', '--lines', '4']
  const entries = execFileSync('journalctl', [...where, '-a', '-o', 'json'], { encoding: 'utf8' })
    .trim()
    .split('\n')
  const explained = async (entry: string) => {
    const args = ['explain', '-c', 'sluice.yaml', '--source', 'j3', '--json']
    const { code, stdout, stderr } = await command(args, { cwd: folder, stdin: entry })
    t.equal(code, 0, stderr)
    const { read_as, fields } = JSON.parse(stdout).source
    return { read_as, fields }
  }
  for (const [i, event] of of(3).slice(0, 3).entries())
    t.same(
      await explained(entries[i]!),
      { read_as: 'an entry of the journal', fields: event },
      'explained as it was read',
    )
})
