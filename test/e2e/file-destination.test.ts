import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { fill, Mounts, mayMount } from '../support/mounts.js'

const LINES = 21_000
const rest = 'x'.repeat(100)
const noMount = mayMount() ? false : 'only root can make a small file system, and not in every container'

/** Which of the lines `number rest` a file has how often; fails for whatever else is in it. */
function countsOf(t: Test, path: string): Map<number, number> {
  const counts = new Map<number, number>()
  const strange: string[] = []
  for (const line of readFileSync(path, 'latin1').split('\n').slice(0, -1)) {
    const number = /^(\d+) (.*)$/.exec(line)
    if (number?.[2] !== rest) strange.push(line.slice(0, 60))
    else counts.set(Number(number[1]), (counts.get(Number(number[1])) ?? 0) + 1)
  }
  t.same(strange, [], 'no line is torn, and nothing else is there')
  return counts
}

t.test('a disk that is full again and again costs no line', { skip: noMount }, async t => {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'in.log'), Array.from({ length: LINES }, (_, n) => `${n} ${rest}\n`).join(''))
  const small = join(folder, 'small')
  mkdirSync(small)
  const mounts = new Mounts()
  mounts.make(small, '7m')
  try {
    await fillAndFree(t, folder, small)
  } finally {
    mounts.end()
  }
})

t.test('a daemon starts on a full disk: only what needs the disk waits', { skip: noMount }, async t => {
  const folder = testFolder(t, { state: {}, 'in.log': '1\n' })
  const [state, kept, plain] = ['state', 'kept', 'plain'].map(name => join(folder, name)) as [string, string, string]
  const mounts = new Mounts()
  mounts.make(state, '256k')
  const start = () =>
    startDaemon(
      t,
      folder,
      `
sources: { log: { type: file, include: [in.log] } }
destinations:
  plain: { type: file, path: plain, inputs: [log] }
  kept: { type: file, path: kept, inputs: [log], buffer: { type: disk, max_bytes: 1MB } }
`,
    )
  const has = (path: string, lines: string) => existsSync(path) && readFileSync(path, 'latin1') === lines
  try {
    const first = await start()
    await first.until(() => has(plain, '1\n') && has(kept, '1\n'))
    await first.stop(t)
    appendFileSync(join(folder, 'in.log'), '2\n')
    fill(join(state, 'filler'))
    const second = await start()
    await second.until(() => has(plain, '1\n2\n'))
    for (const code of ['SLUICE_BUFFER_NOT_WRITTEN', 'SLUICE_CHECKPOINT_NOT_SAVED'])
      await second.until(() => second.stderr.includes(code))
    t.ok(has(kept, '1\n'))
    unlinkSync(join(state, 'filler'))
    await second.until(() => has(kept, '1\n2\n') && second.stderr.includes('positions can be saved again'))
    await second.stop(t)
  } finally {
    mounts.end()
  }
})

async function fillAndFree(t: Test, folder: string, small: string): Promise<void> {
  const ballast = Array.from({ length: 5 }, (_, n) => join(small, `ballast${n}`))
  for (const path of ballast) writeFileSync(path, Buffer.alloc(1_100_000))
  const options = 'inputs: [log], batch: { max_events: 97 }, retry: { initial: 5ms, max: 20ms }'
  const config = `
sources: { log: { type: file, include: [in.log] } }
destinations:
  two: { type: file, path: small/two, max_in_flight: 2, ${options} }
  eight: { type: file, path: small/eight, max_in_flight: 8, ${options} }
  synced: { type: file, path: small/synced, max_in_flight: 8, fsync: true, ${options} }
`
  const daemon = await startDaemon(t, folder, config)
  const outputs = ['two', 'eight', 'synced']
  const refusals = (of: Awaited<ReturnType<typeof daemon.scrape>>) =>
    of.sum('sluice_delivery_retries_total', { reason: 'enospc' })
  for (const path of ballast) {
    const before = refusals(await daemon.scrape())
    await daemon.scrapedUntil(scrape => refusals(scrape) > before + 4)
    fill(path)
    unlinkSync(path)
  }
  const end = await daemon.scrapedUntil(scrape => outputs.every(id => scrape.events(id).sent === LINES))
  end.conserves(t)
  t.equal(end.sum('sluice_file_torn_writes_total'), 0)
  await daemon.stop(t)
  for (const id of outputs) {
    const counts = countsOf(t, join(small, id))
    t.equal(counts.size, LINES, `${id}: every line`)
    t.ok(
      [...counts.values()].every(count => count === 1),
      `${id}: once`,
    )
  }
  t.same(readdirSync(small).sort(), outputs.sort())
}

t.test('a source does not read what comes of its own events, whatever links hide that', async t => {
  const folder = testFolder(t, { logs: { 'in.log': 'one\n' }, other: { 'out.txt': 'before\n' } })
  const at = (name: string) => join(folder, name)
  symlinkSync('../other/out.txt', at('logs/linked.log'))
  const config = `
sources: { log: { type: file, include: [logs/*.log], scan_interval: 20ms } }
destinations: { out: { type: file, inputs: [log], path: other/out.txt } }
`
  const daemon = await startDaemon(t, folder, config)
  const sent = (count: number) => daemon.scrapedUntil(scrape => scrape.events('out').sent >= count)
  await sent(1)
  appendFileSync(at('logs/in.log'), 'two\n')
  await sent(2)
  // Rotated: still the same file.
  renameSync(at('other/out.txt'), at('logs/rotated.log'))
  await daemon.until(() => /file was rotated; opening the new one/.test(daemon.stderr) || appendLine())
  function appendLine(): false {
    appendFileSync(at('logs/in.log'), 'more\n')
    return false
  }
  await daemon.until(() => daemon.logs().filter(({ code }) => code === 'SLUICE_OWN_OUTPUT').length >= 2)
  appendFileSync(at('logs/in.log'), 'last\n')
  const last = () => existsSync(at('other/out.txt')) && readFileSync(at('other/out.txt'), 'utf8').endsWith('last\n')
  await daemon.until(last)
  const { passed } = await daemon.stop(t)
  const written = readFileSync(at('logs/in.log'), 'utf8')
  const arrived = readFileSync(at('logs/rotated.log'), 'utf8') + readFileSync(at('other/out.txt'), 'utf8')
  t.equal(arrived, `before\n${written}`, 'every line, once')
  t.equal(passed, written.split('\n').length - 1)
})
