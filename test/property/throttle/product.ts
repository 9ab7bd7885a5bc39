import { cpSync, existsSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { throttle } from '../../../src/components/processors/throttle.js'
import { codecOf } from '../../../src/core/codecs/list.js'
import { Ack } from '../../../src/core/event/ack.js'
import { EventBatch } from '../../../src/core/event/batch.js'
import type { Origin } from '../../../src/core/event/origin.js'
import { ComponentCounters } from '../../../src/engine/flow/counters.js'
import type { WaitedEvents } from '../../../src/engine/flow/waiting.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { CHUNK_BYTES } from '../../../src/lib/lines/chunk-memory.js'
import { LineSplitter } from '../../../src/lib/lines/line-splitter.js'
import type { TimerClock } from '../../../src/lib/time.js'
import { linesOf } from '../../support/batches.js'
import { ManualTime, settle } from '../../support/manual-time.js'
import { loadedStageOf } from '../../support/stage.js'
import type { Options } from './model.js'
import type { Scenario } from './scenario.js'

/** The throttle of the product in its stage, in a time that stands still. */

export interface Seen {
  readonly passed: readonly string[]
  readonly discarded: readonly string[]
}

class WalledTime extends ManualTime {
  readonly #offsetMs: number

  constructor(offsetMs: number) {
    super()
    this.#offsetMs = offsetMs
  }

  override wall(): number {
    return this.#offsetMs + this.now()
  }

  /** How often the next look at a limits file was planned. */
  looks = 0

  readonly #plan = (this as ManualTime).after

  override readonly after: ManualTime['after'] = (ms, fn) => {
    if (ms === LOOK_EVERY_MS) this.looks++
    return this.#plan(ms, fn)
  }
}

/** Waits for what is under way with files; it is in real time. */
async function filesAreWritten(): Promise<void> {
  const isWork = (name: string) => name === 'FSReqPromise' || name === 'CloseReq'
  while (process.getActiveResourcesInfo().some(isWork)) await new Promise(resolve => setTimeout(resolve, 1))
}

/** A limits file is looked at so often; nothing else in a scenario has this interval. */
const LOOK_EVERY_MS = 1000

export class Product {
  readonly time: WalledTime
  #begunAt = 0
  readonly counters = new ComponentCounters('p', 'processor', 'throttle')
  readonly #folder: string
  /** Each process has a monotonic clock of its own. */
  #aheadMs = 0
  #wallAheadMs = 0
  readonly #clock: TimerClock = {
    now: () => this.time.now() + this.#aheadMs,
    wall: () => this.time.wall() + this.#wallAheadMs,
    after: (ms, fn) => this.time.after(ms, fn),
  }
  /** Processes before this one. */
  #restarts = 0
  /** Folders with saved buckets before this one. */
  #kept = 0
  #savedBytes = () => 0
  #knownBytes = 0
  #options: Options
  #waiting: readonly WaitedEvents[] = []
  #made!: Awaited<ReturnType<typeof loadedStageOf>>
  #origins = new Map<string, Origin>()
  readonly #wanted = new WantedNames()

  static async start(scenario: Scenario, folder: string): Promise<Product> {
    const product = new Product(scenario, folder)
    product.#write(scenario.fileRules)
    await product.#begin(undefined)
    return product
  }

  private constructor({ options, wall }: Scenario, folder: string) {
    this.time = new WalledTime(wall)
    this.#folder = folder
    this.#options = options
  }

  get #file(): string {
    return join(this.#folder, 'limits.yaml')
  }

  get #saved(): string {
    return join(this.#folder, 'throttle', String(this.#kept))
  }

  #write(rules: readonly Options[]): void {
    writeFileSync(`${this.#file}.new`, JSON.stringify(rules))
    renameSync(`${this.#file}.new`, this.#file)
  }

  async #begin(inherited: unknown): Promise<void> {
    const file = this.#options.limits_file === undefined ? {} : { limits_file: this.#file }
    const { counters } = this
    const count = (bytes: () => number) => {
      this.#savedBytes = bytes
    }
    const state = { path: this.#saved, hasRoom: () => true, count }
    const wanted = this.#wanted
    const about = { clock: this.#clock, counters, wanted, inherited, state, readsAgain: () => true }
    this.#made = await loadedStageOf(throttle, { ...this.#options, ...file }, about)
    this.#origins = new Map()
    this.#begunAt = this.time.now()
    this.#knownBytes = this.#savedBytes()
    await this.#made.stage.start(new AbortController().signal)
    this.#made.stage.outputs.get('discarded')!.connected = true
  }

  #origin(source: string): Origin {
    const { wanted } = this.#made
    const origin = this.#origins.get(source) ?? {
      source,
      host: 'h',
      path: `/${source}`,
      codec: codecOf('json')!,
      wanted,
    }
    this.#origins.set(source, origin)
    return origin
  }

  /** Sends a batch; what comes out at once. */
  async send(source: string, isBacklog: boolean, lines: readonly string[]): Promise<Seen> {
    const splitter = new LineSplitter(2 ** 20)
    const bytes = Buffer.from(lines.map(line => `${line}\n`).join(''))
    // Every second one where the kernel reads it, as from a file.
    if (lines.length % 2 === 0 && bytes.length <= CHUNK_BYTES) bytes.copy(splitter.reserve(CHUNK_BYTES))
    else bytes.copy(splitter.reserve(bytes.length))
    const frame = splitter.commit(bytes.length)!
    splitter.release()
    const batch = new EventBatch(frame, this.#origin(source), this.time.wall(), new Ack(() => {}), isBacklog)
    this.counters.arrived(batch.length, batch.bytes)
    this.#made.stage.write(batch)
    return this.#left()
  }

  async #left(): Promise<Seen> {
    await settle()
    if (this.#options.persist === true) await filesAreWritten()
    const seen = { passed: [] as string[], discarded: [] as string[] }
    // What is read makes room for more.
    while (this.#read(seen) > 0) await settle()
    return seen
  }

  #read(seen: { passed: string[]; discarded: string[] }): number {
    const { stage } = this.#made
    let found = 0
    for (const [lines, stream] of [
      [seen.passed, stage],
      [seen.discarded, stage.outputs.get('discarded')!],
    ] as const) {
      for (let batch = stream.read() as EventBatch | null; batch; batch = stream.read() as EventBatch | null) {
        lines.push(...linesOf(batch))
        batch.ack.settle('delivered')
        found++
      }
    }
    return found
  }

  /** Lets time go by; `at` gets what comes out, at each time at which something happens. */
  async advance(ms: number, at: (seen: Seen) => void): Promise<void> {
    const until = this.time.now() + ms
    for (let next = this.time.next; next !== undefined && next <= until; next = this.time.next) {
      const { looks } = this.time
      await this.time.advance(Math.max(0, next - this.time.now()))
      const sinceMs = this.time.now() - this.#begunAt
      const looksAtFile = sinceMs > 0 && sinceMs % LOOK_EVERY_MS === 0
      // Files are read in real time.
      if (this.#options.limits_file !== undefined && looksAtFile)
        while (this.time.looks === looks) await new Promise(resolve => setTimeout(resolve, 1))
      at(await this.#left())
    }
    await this.time.advance(until - this.time.now())
    at(await this.#left())
  }

  /** Ends it; what comes out then. What waits is given back, or `begin` goes on with it: with `next`. */
  async end(isReplaced: boolean, next?: 'same' | 'other'): Promise<Seen> {
    const { stage, processor } = this.#made
    stage.endWaiting(() => next !== undefined)
    stage.isReplaced = isReplaced
    stage.end()
    const seen = await this.#left()
    this.#waiting = stage.leftToSuccessor.map(left => (next === 'same' ? left : { ...left, dueAt: 0 }))
    if (!isReplaced) await processor.stop?.(new AbortController().signal)
    return seen
  }

  /** Begins anew after its end, with the same options if there are no others. */
  async begin(options: Options | undefined): Promise<void> {
    const { processor } = this.#made
    const inherited = options ? undefined : processor.handOver!()!.value
    await processor.stop?.(new AbortController().signal)
    this.#options = options ?? this.#options
    if (this.#waiting.length > 0) this.counters.retire()
    await this.#begin(inherited)
    const { stage } = this.#made
    for (const left of this.#waiting) {
      left.batch.renew()
      this.counters.arrived(left.batch.length, left.batch.bytes)
      stage.inherit(left)
    }
  }

  /** Whether all buckets are saved as they are: then they get no older. */
  isSaved(): boolean {
    this.#wallAheadMs = 1
    const age = this.series('sluice_throttle_state_age_seconds', '').get('') ?? 0
    this.#wallAheadMs = 0
    if (age === 0) this.#knownBytes = this.#savedBytes()
    return age === 0
  }

  /** Whether nothing has been saved since `isSaved` said so. */
  get isLastSaveKnown(): boolean {
    return this.#savedBytes() === this.#knownBytes
  }

  /** The next process goes on with the files as they are now. */
  keepFiles(): void {
    const before = this.#saved
    this.#kept++
    if (existsSync(before)) cpSync(before, this.#saved, { recursive: true })
  }

  /** Begins in another process after so long, after its end. */
  async beginLater(ms: number): Promise<void> {
    await this.time.advance(ms)
    this.#aheadMs = ++this.#restarts % 2 === 0 ? 0 : 86_400_000
    await this.#begin(undefined)
  }

  /** Writes the limits file, and waits until it is read. */
  async changeFile(rules: readonly Options[], at: (seen: Seen, isRead: boolean) => void): Promise<void> {
    this.#write(rules)
    // A file that was the same at two looks is read.
    const { looks } = this.time
    await this.advance(2.5 * LOOK_EVERY_MS, seen => at(seen, this.time.looks >= looks + 2))
  }

  /** The values of a metric, by the value of a label. */
  series(name: string, label: string): Map<string, number> {
    const found = new Map<string, number>()
    for (const { read } of this.counters.series.get(name) ?? [])
      for (const { labels, value } of read())
        found.set(labels[label] ?? '', (found.get(labels[label] ?? '') ?? 0) + value)
    return found
  }
}
