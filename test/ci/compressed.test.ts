import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import zlib, { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type Daemon, startDaemon } from '../support/daemon.js'
import { fileText } from '../support/file-text.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { startReceiver } from '../support/receiver.js'

const CONFIG = `
sources: { log: { type: file, include: ['*.log'], exclude: ['*.gz', out.log], rotate_wait: 200ms } }
destinations: { copy: { type: file, inputs: [log], path: out.log, batch: { max_events: 500 } } }
`

/** A program's log in a folder that no other user may write to, as logrotate asks for. */
class Log {
  readonly folder: string
  path: string
  written = 0

  constructor(t: Test) {
    this.folder = testFolder(t)
    chmodSync(this.folder, 0o755)
    this.path = join(this.folder, 'app.log')
    writeFileSync(this.path, '')
  }

  append(lines: number): void {
    let text = ''
    for (const end = this.written + lines; this.written < end; this.written++) text += `${this.#line(this.written)}\n`
    appendFileSync(this.path, text)
  }

  #line(i: number): string {
    return `${String(i).padStart(8, '0')} ${'something happened '.repeat(1 + (i % 5))}`
  }

  delivered(): string[] {
    const out = join(this.folder, 'out.log')
    return existsSync(out) ? readFileSync(out, 'utf8').split('\n').slice(0, -1) : []
  }

  async start(t: Test, config = CONFIG): Promise<Daemon> {
    return startDaemon(t, this.folder, config)
  }

  /** Waits until everything is delivered, and asserts that it came whole and in order; `again`: parts of it twice. */
  async arrives(t: Test, daemon: Daemon, again = false): Promise<void> {
    const last = this.#line(this.written - 1)
    await daemon.until(() => this.delivered().at(-1) === last)
    const lines = this.delivered()
    if (!again) t.equal(lines.length, this.written, 'every line once')
    const distinct = [...new Set(lines)]
    t.equal(distinct.length, this.written, 'every line')
    const wrong = distinct.findIndex((line, i) => line !== this.#line(i))
    t.equal(wrong, -1, `in order, and none that nobody wrote: ${distinct[wrong]}`)
  }
}

/** Rotates the log now, as the system does every night. */
function rotate(logrotate: string, { folder, path }: Log, more = ''): void {
  const config = join(folder, 'logrotate.conf')
  writeFileSync(config, `${path} {\n rotate 9\n create\n compress\n ${more}\n}\n`, { mode: 0o600 })
  execFileSync(logrotate, ['--force', '--state', join(folder, 'logrotate.state'), config])
}

t.test('rotated and compressed by logrotate while the daemon was stopped', async t => {
  const logrotate = needs(t, 'logrotate')
  if (!logrotate || !needs(t, 'gzip')) return
  for (const more of ['', 'dateext', 'copytruncate', 'delaycompress']) {
    await t.test(more || 'numbered', async t => {
      const log = new Log(t)
      log.append(1000)
      const first = await log.start(t)
      await log.arrives(t, first)
      await first.stop(t)
      log.append(5000)
      rotate(logrotate, log, more)
      log.append(300)
      const next = await log.start(t)
      await log.arrives(t, next)
      await next.scrapedUntil(scrape => scrape.sum('sluice_files_watched') === 1)
      t.match(await next.stop(t), { received: 5300, passed: 5300, undelivered: 0 })
      log.append(10)
      const last = await log.start(t)
      await log.arrives(t, last)
      t.match(await last.stop(t), { received: 10, undelivered: 0 }, 'the copy is not read again')
    })
  }
})

t.test(
  'twice while the daemon was stopped: what was read in part comes to its end, then what was never seen',
  async t => {
    const logrotate = needs(t, 'logrotate')
    if (!logrotate || !needs(t, 'gzip')) return
    const log = new Log(t)
    log.append(1000)
    const first = await log.start(t)
    await log.arrives(t, first)
    await first.stop(t)
    log.append(2000)
    rotate(logrotate, log)
    log.append(500)
    rotate(logrotate, log)
    log.append(300)
    t.ok(existsSync(`${log.path}.2.gz`))
    const next = await log.start(t)
    await log.arrives(t, next)
    await next.stop(t)
  },
)

t.test('a copy of what was delivered, under the name of a file that was empty', async t => {
  const log = new Log(t)
  const config = CONFIG.replace("'*.log'", "'app.log*'")
  const first = await startDaemon(t, log.folder, config)
  await first.scrapedUntil(scrape => scrape.sum('sluice_files_watched') === 1)
  // Younger than the empty file, delivered whole, and too much to be looked through in one go.
  log.path = `${log.path}.1`
  log.append(300_000)
  await log.arrives(t, first)
  await first.stop(t)
  // As whatever compresses without keeping times does.
  writeFileSync(`${log.path}.gz`, gzipSync(readFileSync(log.path)))
  rmSync(log.path)
  rmSync(join(log.folder, 'app.log'))
  const next = await startDaemon(t, log.folder, config)
  log.path = join(log.folder, 'app.log')
  log.append(10)
  await log.arrives(t, next)
  t.match(await next.stop(t), { received: 10, undelivered: 0 })
})

for (const kept of [false, true]) {
  const what = kept ? 'and is still there' : 'and deleted'
  t.test(`a copy of what was delivered ${what}, that begins like a file of which little was read`, async t => {
    const log = new Log(t)
    const config = CONFIG.replace("'*.log'", "'app.log*'")
    const first = await startDaemon(t, log.folder, config)
    log.append(1)
    await log.arrives(t, first)
    mkdirSync(join(log.folder, 'elsewhere'))
    renameSync(log.path, join(log.folder, 'elsewhere/app.log'))
    const line = log.delivered()[0]!
    // Compressed while the daemon runs and has it open, or while it does not run.
    log.path = join(log.folder, 'app.log.1')
    writeFileSync(log.path, `${line}\n`)
    log.append(500)
    await first.until(() => log.delivered().length >= 502)
    if (kept) await first.stop(t)
    writeFileSync(`${log.path}.gz`, gzipSync(readFileSync(log.path)))
    if (!kept) {
      rmSync(log.path)
      await first.scrapedUntil(scrape => scrape.sum('sluice_files_watched') === 0)
      await first.stop(t)
    }
    const next = await startDaemon(t, log.folder, config)
    log.path = join(log.folder, 'app.log')
    log.append(10)
    await next.until(() => log.delivered().length >= 512)
    t.match(await next.stop(t), { received: 10, undelivered: 0 })
  })
}

t.test('killed before and in the middle of the copy', async t => {
  const gzip = needs(t, 'gzip')
  if (!gzip) return
  const log = new Log(t)
  log.append(10_000)
  const receiver = await startReceiver({ out: join(log.folder, 'out.log') })
  t.teardown(() => receiver.close())
  const config = `
sources: { log: { type: file, include: [app.log], rotate_wait: 200ms } }
destinations:
  up: { type: http, inputs: [log], url: "${receiver.url()}", encoding: raw, batch: { max_events: 500 }, max_in_flight: 1 }
`
  const saved = join(log.folder, 'state/checkpoints/log.json')
  const checkpoint = () => fileText(saved)
  /** The first checkpoint may be written before anything was delivered. */
  const hasProgress = (text: string) => /"offset":[1-9]/.test(text)
  const kill = async () => {
    // The receiver answers five requests, then none.
    let requests = 5
    receiver.otherwise = () => (requests-- > 0 ? 200 : { hang: 'after_body' })
    const before = checkpoint()
    const daemon = await log.start(t, config)
    // Of what was never saved nothing can be known after a kill.
    await daemon.until(() => requests < 0 && checkpoint() !== before && hasProgress(checkpoint()))
    daemon.child.kill('SIGKILL')
    t.equal(await daemon.exit, 'SIGKILL')
  }
  await kill()
  log.append(20_000)
  renameSync(log.path, `${log.path}-20260101`)
  writeFileSync(log.path, '')
  execFileSync(gzip, [`${log.path}-20260101`])
  log.append(1000)
  await kill()
  await kill()
  t.ok(log.delivered().length < log.written, 'in the middle')
  receiver.otherwise = 200
  const last = await log.start(t, config)
  await log.arrives(t, last, true)
  await last.stop(t)
})

t.test('archives that the pattern matches: killed in the middle, read to their ends, and not again', async t => {
  const gzip = needs(t, 'gzip')
  if (!gzip) return
  const log = new Log(t)
  for (let i = 1; i < 6; i++) {
    log.append(5000)
    renameSync(log.path, `${log.path}.${i}`)
    execFileSync(gzip, [`${log.path}.${i}`])
  }
  if ('createZstdDecompress' in zlib && needs(t, 'zstd')) {
    log.append(5000)
    execFileSync('zstd', ['--quiet', '--rm', log.path, '-o', `${log.path}.6.zst`])
  }
  log.append(100)
  const receiver = await startReceiver({ out: join(log.folder, 'out.log') })
  t.teardown(() => receiver.close())
  const config = `
sources: { log: { type: file, include: ['app.log*'], rotate_wait: 200ms } }
destinations:
  up: { type: http, inputs: [log], url: "${receiver.url()}", encoding: raw, batch: { max_events: 500 }, max_in_flight: 1 }
`
  let requests = 25
  receiver.otherwise = () => (requests-- > 0 ? 200 : { hang: 'after_body' })
  const killed = await log.start(t, config)
  await killed.until(() => requests < 0)
  killed.child.kill('SIGKILL')
  t.equal(await killed.exit, 'SIGKILL')
  receiver.otherwise = 200
  const next = await log.start(t, config)
  const distinct = () => new Set(log.delivered()).size
  await next.until(() => distinct() >= log.written)
  t.equal(distinct(), log.written)
  t.match(await next.stop(t), { undelivered: 0 })
  const last = await log.start(t, config)
  log.append(10)
  await last.until(() => distinct() >= log.written)
  t.match(await last.stop(t), { received: 10, undelivered: 0 }, 'no archive is read again')
})

t.test('compressed with a part of it missing: told and counted once, and the new file is read', async t => {
  const gzip = needs(t, 'gzip')
  if (!gzip) return
  const log = new Log(t)
  log.append(1000)
  const first = await log.start(t)
  await log.arrives(t, first)
  await first.stop(t)
  log.append(50_000)
  execFileSync(gzip, [log.path])
  const whole = readFileSync(`${log.path}.gz`)
  writeFileSync(`${log.path}.gz`, whole.subarray(0, whole.length / 2))
  const { written } = log
  log.append(300)
  const next = await log.start(t)
  await next.until(() =>
    log
      .delivered()
      .at(-1)
      ?.startsWith(String(log.written - 1).padStart(8, '0')),
  )
  const lines = log.delivered()
  t.ok(lines.length > 10_000 && lines.length < written, `${lines.length} lines: what stands before is read`)
  await next.scrapedUntil(scrape => scrape.sum('sluice_files_watched') === 1)
  const scrape = await next.scrape()
  t.equal(scrape.sum('sluice_component_errors_total', { component_id: 'log' }), 1, 'counted')
  t.equal(next.logs().filter(({ code }) => code === 'SLUICE_COPY_DAMAGED').length, 1, 'told')
  await next.stop(t)
  t.ok(statSync(`${log.path}.gz`).size > 0, 'the copy is left as it was')
})
