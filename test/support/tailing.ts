import fs, { rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Tailer } from '../../src/components/file/reading/tailer.js'
import { fileSource } from '../../src/components/file/source.js'
import type { Output, Source, SourceContext } from '../../src/core/component.js'
import { Ack, type AckStatus } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { Reach } from '../../src/core/options/reach.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import { MemoryCheckpoints } from '../../src/engine/testing/taker.js'
import type { FileSystems } from '../../src/lib/files/disk/file-systems.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { LINE_END } from '../../src/lib/lines/line-splitter.js'
import { systemClock, type TimerClock } from '../../src/lib/time.js'
import { TimeSlices } from '../../src/lib/time-slices.js'
import { until } from './until.js'

export { MemoryCheckpoints } from '../../src/engine/testing/taker.js'

/** Takes batches, keeps a copy of their bytes by file, and settles them at once, later or never. */
export class Receiver implements Output {
  readonly lines: { file: string; text: string; flags: number }[] = []
  /** The texts of the lines that were backlog. */
  readonly backlog: string[] = []
  readonly #bytes = new Map<string, Buffer[]>()
  /** While true, batches wait for `settle`. */
  hold = false
  readonly held: EventBatch[] = []
  /** Batches that came, whether settled or not. */
  batches = 0
  /** Whether it uses the ids of events. */
  readonly usesIds: boolean = false
  /** What `send` waits for. */
  room: Promise<void> = Promise.resolve()

  ack(onSettled: (status: AckStatus) => void): Ack {
    return new Ack(onSettled)
  }

  async send(batch: EventBatch): Promise<void> {
    this.batches++
    const path = batch.origin.path!
    for (let i = 0; i < batch.length; i++) {
      const [start, end, flags] = [batch.starts[i]!, batch.ends[i]!, batch.flags[i]!]
      this.lines.push({ file: path, text: batch.chunk.toString('latin1', start, end), flags })
      if (batch.isBacklog) this.backlog.push(batch.chunk.toString('latin1', start, end))
      const bytes = Buffer.from(batch.chunk.subarray(start, end + (flags & LINE_END)))
      const known = this.#bytes.get(path)
      if (known) known.push(bytes)
      else this.#bytes.set(path, [bytes])
    }
    if (this.hold) this.held.push(batch)
    else batch.ack.settle('delivered')
    await this.room
  }

  settle(status: AckStatus = 'delivered', count = this.held.length): void {
    for (const batch of this.held.splice(0, count)) batch.ack.settle(status)
  }

  /** All bytes of a file, in the order in which they came. */
  bytes(path: string): Buffer {
    return Buffer.concat(this.#bytes.get(path) ?? [])
  }

  texts(path?: string): string[] {
    return this.lines.filter(line => path === undefined || line.file === path).map(line => line.text)
  }
}

/** Real time, which a test puts forward or holds: nothing gets old because the test is slow. */
export class TestTime implements TimerClock {
  ms = 0
  #heldAt: number | undefined
  readonly now = () => (this.#heldAt ?? systemClock.now()) + this.ms
  readonly wall = () => systemClock.wall() + this.ms
  readonly after = systemClock.after
  hold(): void {
    this.#heldAt = systemClock.now()
  }
  release(): void {
    this.#heldAt = undefined
  }
}

export interface Tailing {
  readonly out: Receiver
  readonly counters: ComponentCounters
  readonly checkpoints: MemoryCheckpoints
  /** What was logged, from level warn. */
  readonly log: { level: number; msg: string; code?: string; file?: string; copy?: string; cause?: string }[]
  readonly source: Source
  run: Promise<void>
  /** The value of a series of the component's own. */
  value(name: string, labels?: Record<string, string>): number | undefined
  /**
   * Resolves after `count` scans of all files that began after the call, or when the run has ended: what the files held by
   * then has been found.
   */
  scanned(count?: number): Promise<void>
  /** Resolves when all that the file holds was read and taken, an unfinished line too. Nobody may write to it meanwhile. */
  read(path: string): Promise<void>
  /** Ends the run as SIGTERM would, and saves. */
  stop(): Promise<void>
  /** Ends the run without saving. */
  kill(): Promise<void>
  /** Runs it again, as the engine does after a failure. */
  again(): Promise<void>
}

const running = new Set<Tailing>()

/** How far files were read and taken, by path, for each receiver of their lines. */
const taken = new WeakMap<Output, Map<string, number>>()
const { take } = Tailer.prototype
Tailer.prototype.take = function (result: number | Error, out: Output) {
  const batch = take.call(this, result, out)
  const files = taken.get(out) ?? new Map<string, number>()
  taken.set(out, files.set(this.path, this.at))
  return batch
}

/**
 * Starts a file source on `options`, with what a run before left in `checkpoints`. Renamed files stay open for longer
 * than a test waits, so that a test fails if only the end of this time brings what it waits for.
 */
export async function tail(
  options: Record<string, unknown>,
  checkpoints = new MemoryCheckpoints(),
  out = new Receiver(),
  clock: TimerClock = systemClock,
  reach?: Reach,
  fileSystems?: FileSystems,
  isOwnOutput?: SourceContext['isOwnOutput'],
): Promise<Tailing> {
  const counters = new ComponentCounters('in', 'source', 'file')
  const log: Tailing['log'] = []
  const context = {
    id: 'in',
    log: pino({ level: 'debug' }, { write: line => log.push(JSON.parse(line)) }),
    clock,
    metrics: counters,
    reach,
    fileSystems,
    checkpoints,
    ...(isOwnOutput && { isOwnOutput }),
    origin: (codec, path) => ({
      source: 'in',
      host: hostname(),
      codec,
      wanted: Object.assign(new WantedNames(), { areIdsUsed: out.usesIds }),
      ...(path ? { path } : {}),
    }),
  } as Partial<SourceContext> as SourceContext
  const source = await fileSource.create(
    fileSource.options.parse({ scan_interval: '20ms', rotate_wait: '1h', ...options }),
    context,
  )
  let abort = new AbortController()
  const start = () => {
    const run = source.run(out, abort.signal)
    run.catch(() => {})
    return run
  }
  const end = async () => {
    abort.abort()
    await tailing.run.catch(() => {})
    await source.stop?.(AbortSignal.timeout(1))
    running.delete(tailing)
  }
  const tailing: Tailing = {
    out,
    counters,
    checkpoints,
    log,
    source,
    run: start(),
    value: (name: string, labels: Record<string, string> = {}) => {
      const all = [...(counters.series.get(name) ?? [])].flatMap(series => [...series.read()])
      return all.find(one => Object.entries(labels).every(([key, value]) => one.labels[key] === value))?.value
    },
    async scanned(count = 1) {
      let ended = false
      const over = () => {
        ended = true
      }
      tailing.run.then(over, over)
      const scans = () => tailing.value('sluice_file_scans_total')!
      // One may have begun before.
      const wanted = scans() + count + 1
      await until(`${count} scans`, () => ended || scans() >= wanted)
    },
    read: async path => {
      const at = () => taken.get(out)?.get(path)
      await until(`${path} to be read`, () => at() === statSync(path).size, { show: at })
    },
    stop: async () => {
      await end()
      await checkpoints.flush()
    },
    kill: end,
    again: () => {
      abort = new AbortController()
      running.add(tailing)
      tailing.run = start()
      return tailing.run
    },
  }
  running.add(tailing)
  // A run that a failed test has left would keep its process, and be heard in the tests after it.
  t.teardown(() => running.has(tailing) && end())
  return tailing
}

/** Resolves when so many lines have arrived. */
export async function arrived({ out, log }: Tailing, lines: number): Promise<void> {
  const show = () => `${out.lines.length}: ${JSON.stringify(out.texts().slice(-20))}, log ${JSON.stringify(log)}`
  await until(`${lines} lines`, () => out.lines.length >= lines, { show })
}

/** Resolves when so many lines have arrived, and everything was scanned again: more would have been found. */
export async function settled(run: Tailing, lines: number): Promise<void> {
  await arrived(run, lines)
  await run.scanned()
}

/** The source takes times of files that are no further apart for equal: the clock of a file system is a little behind. */
const CLOCK_MS = 10

/** Resolves when a file written in `dir` is later than everything until now, as the source compares times. */
export async function laterFiles(dir: string): Promise<void> {
  const now = Date.now() + CLOCK_MS
  const probe = join(dir, '.probe-of-the-clock')
  await until('files to have a later time', () => {
    writeFileSync(probe, '.')
    return statSync(probe).mtimeMs > now
  })
  rmSync(probe)
}

/** Lets sweeps pause after each stat of a path, so that files are read between any two of them. */
export function pauseAtEachStat(t: Test): void {
  const calls = fs as { statSync: unknown }
  const { statSync } = fs
  const due = Object.getOwnPropertyDescriptor(TimeSlices.prototype, 'due')!
  let isDue = false
  calls.statSync = (...args: Parameters<typeof statSync>) => {
    isDue = true
    return statSync(...args)
  }
  const get = () => {
    const was = isDue
    isDue = false
    return was
  }
  Object.defineProperty(TimeSlices.prototype, 'due', { configurable: true, get })
  t.teardown(() => {
    calls.statSync = statSync
    Object.defineProperty(TimeSlices.prototype, 'due', due)
  })
}
