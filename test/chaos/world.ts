import { mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Scrape } from '../support/daemon.js'
import { fill, Mounts } from '../support/mounts.js'
import { type Certificates, SERVER_NAME } from './certificates.js'
import { Daemon } from './daemon.js'
import { Files, type Inode } from './files.js'
import { textOf, textsOf } from './lines.js'
import { Model } from './model.js'
import { Receiver } from './receiver.js'
import { bufferFiles, documentPaths, Saved, SOURCE } from './saved.js'
import type { Setup } from './scenario.js'
import { type Content, Failure } from './written.js'

export const DESTINATION = 'out'
const SHUTDOWN = '2s'
/** After a write that took long, the next checkpoint comes much later. */
const SLOW_DISK_MS = 120_000
/** No waiting is longer than this, however much happens meanwhile. */
const LONGEST_MS = 180_000
/** What a daemon may complain about loudly, here. */
const EXPECTED_ERRORS = [
  'the destination is paused until the cause is corrected; its events wait and are not lost',
  'SLUICE_BUCKETS_NOT_SAVED',
  'SLUICE_CHECKPOINT_NOT_SAVED',
  'SLUICE_ENDED_WITHOUT_POSITIONS',
  'SLUICE_CHECKPOINT_DAMAGED',
  'SLUICE_CHECKPOINT_UNREADABLE',
  'SLUICE_FILE_TRUNCATED',
  'SLUICE_FILE_VANISHED',
  'SLUICE_BUFFER_CUT_SHORT',
  'SLUICE_BUFFER_DAMAGED',
  'SLUICE_BUFFER_EVENTS_LOST',
  'SLUICE_BUFFER_LEDGER_DAMAGED',
  'SLUICE_BUFFER_LEDGER_NOT_WRITTEN',
  'SLUICE_BUFFER_NOT_WRITTEN',
  'SLUICE_BUFFER_SEGMENT_GONE',
  'SLUICE_BUFFER_UNREADABLE',
]
const CANNOT_START = /data_dir .* cannot be used/

/** Each passes everything on, and only `parse` changes it. */
const PROCESSORS = {
  filter: { type: 'filter', condition: 'if (NOT (.nothing exists))' },
  waits: { type: 'chaos_waits' },
  throws: { type: 'chaos_throws' },
  edit: { type: 'edit', steps: [{ remove: ['.nothing'] }] },
  // The texts around the cuts of lines in pieces are covered, unless a field is named.
  redact: { type: 'redact', fields: ['.nothing'], patterns: [{ name: 'nothing', pattern: '~{9}' }] },
  // Adds fields, or says why it does not.
  parse: { type: 'parse', codec: 'regex', pattern: '^(?<id>f[0-9]+)', target: '.parsed', on_error: 'pass' },
  route: { type: 'route', routes: { nothing: 'if (.nothing exists)' } },
  // Many buckets, most of them over the limit, which in shadow keeps no line back.
  throttle: {
    type: 'throttle',
    limit: 1,
    window: '1 Hours',
    window_mode: 'sliding',
    key_field: '.message',
    max_keys: 10_000_000,
    also: [{ limit: 1000, window: '1 Days' }],
    mode: 'shadow',
    summary: { every: '1 Seconds', to: 'discarded' },
    persist: true,
  },
  paced: {
    type: 'throttle',
    limit: 100,
    window: '100ms',
    over_limit: { wait: '1 Hours' },
    on_backlog: 'pace',
  },
}

export interface Surroundings {
  /** A folder for this run alone. */
  readonly folder: string
  readonly certificates: Certificates | undefined
  /** How long nothing at all may happen while something is waited for. */
  readonly patienceMs: number
}

/** The daemon of a run and all around it: its logs, its receiver, its disk; and the model, which is told of everything. */
export class World {
  readonly setup: Setup
  readonly model: Model
  readonly files: Files
  readonly receiver: Receiver
  readonly state: string
  daemon: Daemon | undefined
  readonly daemons: Daemon[] = []
  /** Whether the state can be written. */
  stateFault = false
  /** The daemon ended in order, with nothing left but in its buffer, and its checkpoint was left alone since. */
  clean = false
  readonly #around: Surroundings
  readonly #mounts = new Mounts()
  readonly #keyFile: string
  #deadLettersRead = 0
  #broken: unknown

  constructor(setup: Setup, around: Surroundings) {
    const { folder, certificates } = around
    this.#around = around
    this.setup = setup
    this.model = new Model(setup)
    this.files = new Files(folder, setup, this.model)
    this.state = join(folder, 'state')
    this.#keyFile = join(folder, 'key')
    this.receiver = new Receiver({
      certificates: setup.tls ? certificates : undefined,
      timeoutMs: setup.timeoutMs,
      onArrival: (arrival, body) => this.model.arrived(arrival, textsOf(body, setup)),
      onRefused: body => this.model.refused(textsOf(body, setup)),
      onFailure: error => {
        this.#broken ??= error
      },
    })
  }

  async open(): Promise<void> {
    mkdirSync(this.state)
    mkdirSync(this.files.logs)
    if (this.setup.state === 'tmpfs') this.#mounts.make(this.state, '4m')
    if (this.setup.logs === 'tmpfs') this.#mounts.make(this.files.logs, '8m')
    this.files.make()
    this.#giveKey()
    await this.receiver.listen()
  }

  async close(): Promise<void> {
    this.files.closeKept()
    this.daemon?.signal('SIGKILL')
    await this.daemon?.exit
    await this.receiver.close()
    this.#mounts.end()
  }

  /** Ends the run when something is wrong that nobody waits for. */
  check(): void {
    if (this.#broken !== undefined) throw this.#broken
    const { daemon } = this
    if (!daemon) return
    for (const entry of daemon.logs) {
      if (entry.level >= 50 && !EXPECTED_ERRORS.includes(String(entry.code ?? entry.msg)))
        throw new Failure('log', `the daemon says: ${JSON.stringify(entry)}`)
    }
    if (daemon.running || daemon.told) return
    if (this.stateFault && daemon.code === 1 && CANNOT_START.test(daemon.noise)) {
      this.daemon = undefined
      return
    }
    throw new Failure('crashed', `the daemon ended by itself: ${daemon.code} ${daemon.noise}`)
  }

  /** Waits until `test` holds; fails when nothing has happened for too long. */
  async until(what: string, test: () => boolean, patienceMs = this.#around.patienceMs): Promise<void> {
    const began = performance.now()
    let idleMs = 0
    let requests = this.receiver.requests
    while (!test()) {
      this.check()
      if (this.receiver.requests !== requests) idleMs = 0
      requests = this.receiver.requests
      const slept = performance.now()
      await pause(5)
      // On a machine that is too busy for us the daemon gets more time too.
      idleMs += Math.min(performance.now() - slept, 20)
      if (idleMs > patienceMs || performance.now() - began > LONGEST_MS)
        throw new Failure('stuck', `waiting for ${what}`)
    }
    this.check()
  }

  /** Whether what is written now is delivered soon. */
  get flowing(): boolean {
    return this.daemon?.awake === true && this.receiver.healthy && !this.stateFault
  }

  /** Waits until all lines arrived, of one file or of all. */
  async taken(inode?: Inode): Promise<void> {
    const content = inode?.content
    const what = () => {
      const lines = this.model.waiting(content)
      return `${lines.length} lines (${lines.slice(0, 3).map(({ id }) => id)}) and ${this.model.headersMissing} first lines`
    }
    const arrived = () => {
      this.readDeadLetters()
      return this.model.waiting(content).length === 0 && (content !== undefined || this.model.headersMissing <= 0)
    }
    await this.until('lines', arrived).catch((error: unknown) => {
      if (error instanceof Failure && error.kind === 'stuck')
        throw new Failure('lost', `nothing moves, missing: ${what()}`)
      throw error
    })
  }

  /** Waits until the checkpoint on the disk covers what was written. */
  async saved(): Promise<void> {
    const covered = (saved: Saved, { key, content }: Inode, paths: readonly string[]) => {
      if (content.lines.every(({ line }) => this.model.isHeader(line))) return true
      return (
        !paths.some(path => this.files.matches(path)) || saved.offset(key, paths[0]!)! >= content.size - content.torn
      )
    }
    await this.until(
      'the checkpoint',
      () => {
        const saved = new Saved(this.state)
        return [...this.files.named()].every(([inode, paths]) => covered(saved, inode, paths))
      },
      SLOW_DISK_MS,
    )
  }

  readDeadLetters(): void {
    const path = join(this.state, 'dead-letter', `${DESTINATION}.ndjson`)
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (size <= this.#deadLettersRead) return
    const bytes = readFileSync(path).subarray(this.#deadLettersRead)
    const whole = bytes.subarray(0, bytes.lastIndexOf(10) + 1)
    this.#deadLettersRead += whole.length
    for (const line of whole.toString('latin1').split('\n').slice(0, -1)) {
      const { event } = JSON.parse(Buffer.from(line, 'latin1').toString()) as { event: object }
      this.model.deadLetter(textOf(Buffer.from(JSON.stringify(event)).toString('latin1')))
    }
  }

  async heal(forGood = false): Promise<void> {
    await (forGood ? this.receiver.healForGood() : this.receiver.heal())
    this.#giveKey()
  }

  #giveKey(): void {
    writeFileSync(`${this.#keyFile}.new`, this.receiver.key, { mode: 0o600 })
    renameSync(`${this.#keyFile}.new`, this.#keyFile)
  }

  /** With a disk buffer: what the checkpoint covers is safe, whatever becomes of its file. */
  noteKept(): void {
    if (this.setup.buffer !== 'disk') return
    const saved = new Saved(this.state)
    for (const [{ key, content }, paths] of this.files.named())
      this.model.keep(content, saved.offset(key, paths[0]!) ?? 0)
  }

  /** Starts the daemon, and settles what it can find of what was not delivered, and what it may deliver again. */
  start(): void {
    if (this.daemon?.running) return
    this.noteKept()
    const saved = new Saved(this.state)
    const from = new Map<Content, number>()
    const sizes = new Map(this.model.contents.map(content => [content, content.size]))
    const readable = new Set(this.model.contents)
    const named = this.files.named()
    for (const content of this.model.contents) if (content.gone) readable.delete(content)
    const found = new Set([...named].map(([{ content }]) => content))
    for (const content of readable) if (!found.has(content)) readable.delete(content)
    for (const [{ key, content }, paths] of named) {
      const offset = saved.offset(key, paths[0]!)
      from.set(content, offset ?? 0)
      if (paths.some(path => this.files.matches(path))) continue
      content.away = true
      if (offset === undefined || !saved.finds(key, paths)) readable.delete(content)
    }
    // From where it was saved, which its file cannot tell any more.
    for (const content of this.model.contents) if (content.compressed && !from.has(content)) from.set(content, 0)
    for (const content of this.model.contents)
      if (!readable.has(content)) this.model.excuse(content, 'nothing leads to it when the daemon starts')
    const drained = bufferFiles(this.state, DESTINATION).segments.length === 0
    this.model.started({ clean: this.clean, drained, from, sizes })
    this.clean = false
    const config = join(this.#around.folder, `config-${this.model.lives}.yaml`)
    writeFileSync(config, JSON.stringify(this.#config(), null, 1))
    this.daemon = new Daemon(config, this.#around.folder)
    this.daemons.push(this.daemon)
  }

  #config(): object {
    const { setup, files } = this
    const { tls, through } = setup
    return {
      data_dir: this.state,
      metrics: { listen: '127.0.0.1:0' },
      shutdown_timeout: SHUTDOWN,
      sources: {
        [SOURCE]: {
          type: 'file',
          ...files.patterns,
          decode: setup.format === 'json' ? 'json' : 'text',
          max_line_bytes: setup.lineBytes,
          partial_line_timeout: `${setup.partialMs}ms`,
          rotate_wait: `${setup.rotateWaitMs}ms`,
          scan_interval: `${setup.scanMs}ms`,
          max_open_files: setup.openFiles,
        },
      },
      ...(through !== 'none' && { processors: { all: this.#processor(through) } }),
      destinations: {
        [DESTINATION]: {
          type: 'http',
          inputs: [through === 'none' ? SOURCE : through === 'route' ? 'all.else' : 'all'],
          url: this.receiver.url,
          encoding: setup.format === 'raw' ? 'raw' : 'json',
          headers: { 'x-life': String(this.model.lives) },
          auth: { key_file: this.#keyFile },
          compression: setup.compression,
          ...(tls && this.#around.certificates
            ? { tls: { ca_file: this.#around.certificates.authority, server_name: SERVER_NAME } }
            : {}),
          timeout: `${setup.timeoutMs}ms`,
          max_in_flight: setup.inFlight,
          batch: { max_events: setup.batchEvents, max_wait: '5ms' },
          ...(setup.buffer === 'disk' && { buffer: { type: 'disk', max_bytes: '1MiB' } }),
          retry: { initial: '5ms', max: '50ms' },
        },
      },
    }
  }

  #processor(through: keyof typeof PROCESSORS): object {
    // The lines that are objects have no message.
    const field = through === 'parse' && this.setup.format === 'json' ? { field: '.id' } : {}
    return { ...PROCESSORS[through], ...field, inputs: [SOURCE] }
  }

  async kill(): Promise<void> {
    const { daemon } = this
    if (!daemon?.running) return
    daemon.signal('SIGKILL')
    await daemon.exit
    this.daemon = undefined
    this.clean = false
  }

  /** Ends the daemon in order; when it has hardly started, it may just die of the signal. */
  async term(): Promise<void> {
    const { daemon } = this
    if (!daemon?.running) return
    this.thaw()
    const wasStarted = daemon.started
    this.model.ending = true
    daemon.signal('SIGTERM')
    await this.until('the daemon to end', () => !daemon.running)
    this.daemon = undefined
    if (daemon.code === 'SIGTERM' && !wasStarted) return
    if (this.stateFault && daemon.code === 1 && !daemon.started) return
    const last = daemon.logs.at(-1)
    const expected = daemon.logs.some(({ code }) => code === 'SLUICE_ENDED_WITHOUT_POSITIONS') ? 1 : 0
    if (daemon.code !== expected || last?.msg !== 'ended')
      throw new Failure(
        'exit',
        `the daemon was told to end and ended with ${daemon.code}: ${last?.msg} ${daemon.noise}`,
      )
    this.clean = last.undelivered === 0 && expected === 0 && !this.stateFault
  }

  freeze(): boolean {
    if (!this.daemon?.awake) return false
    this.daemon.frozenAt = performance.now()
    this.daemon.signal('SIGSTOP')
    return true
  }

  thaw(): boolean {
    const { daemon } = this
    if (!daemon?.running || daemon.frozenAt === undefined) return false
    daemon.signal('SIGCONT')
    this.receiver.stoodStill(daemon.frozenAt, performance.now())
    daemon.frozenAt = undefined
    return true
  }

  /** In the place of the file that is written before it takes the checkpoint's name. */
  get #obstacle(): string {
    return `${documentPaths(this.state)[0]}.new`
  }

  /** False: not now. */
  makeUnwritable(all: boolean): boolean {
    try {
      if (!all) mkdirSync(this.#obstacle, { recursive: true })
      else if (!this.#mounts.has(this.state)) return false
      else this.#mounts.onlyToBeRead(this.state)
      this.stateFault = true
      return true
    } catch {
      // It is being written this moment.
      return false
    }
  }

  /** False: its size has no such bound here. */
  fill(where: 'state' | 'logs'): boolean {
    const folder = where === 'state' ? this.state : this.files.logs
    if (!this.#mounts.has(folder)) return false
    if (where === 'state') this.stateFault = true
    fill(join(folder, 'filler'))
    return true
  }

  makeWritable(): void {
    if (this.#mounts.has(this.state)) this.#mounts.toBeWritten(this.state)
    for (const folder of [this.state, this.files.logs]) rmSync(join(folder, 'filler'), { force: true })
    if (statSync(this.#obstacle, { throwIfNoEntry: false })?.isDirectory()) rmdirSync(this.#obstacle)
    this.stateFault = false
  }

  async scrape(): Promise<Scrape> {
    const url = this.daemon?.metricsUrl
    if (url === undefined) throw new Failure('log', 'no address of metrics')
    return new Scrape(await (await fetch(url)).text())
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
