import { pino } from 'pino'
import type { AckStatus } from '../../src/core/event/ack.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import { ComponentCounters } from '../../src/engine/flow/counters.js'
import type { DiskAllowance } from '../../src/engine/flow/disk-allowance.js'
import type { BufferMemory } from '../../src/engine/flow/disk-buffer/context.js'
import { DiskBuffer } from '../../src/engine/flow/disk-buffer/disk-buffer.js'
import type { BufferFolder } from '../../src/engine/flow/disk-buffer/files.js'
import { Input } from '../../src/engine/flow/fan-out.js'
import { WantedNames } from '../../src/lib/formats/json-scan.js'
import { batchOf } from './batches.js'
import { ManualTime, settle } from './manual-time.js'

/** What becomes of a batch that came out; undefined: it is kept, to be settled by the test. */
export type Fate = (numbers: readonly number[]) => AckStatus | undefined

export interface BufferRunOptions {
  readonly folder: BufferFolder
  readonly maxBytes?: number
  readonly whenFull?: 'block' | 'drop_newest'
  readonly fate?: Fate
  readonly time?: ManualTime
  readonly memory?: BufferMemory
  readonly shared?: DiskAllowance
}

/** A disk buffer on a clock that stands still, numbered events that go in, and a record of all that it does. */
export class BufferRun {
  readonly time: ManualTime
  readonly counters = new ComponentCounters('out', 'destination', 'fake')
  /** Numbers in the order of coming out, and the batches they came in. */
  readonly out: number[] = []
  readonly batches: EventBatch[] = []
  /** Numbers by how their batch was settled. */
  readonly settled: Record<AckStatus, number[]> = { delivered: [], rejected: [], errored: [] }
  readonly logs: { level: number; msg: string; code?: string }[]
  ended = false
  /** Whether fates come within the turn. */
  settleSoon = false
  readonly buffer: DiskBuffer
  readonly input: Input
  #fate: Fate

  static async open(options: BufferRunOptions): Promise<BufferRun> {
    const { folder, maxBytes = 1e9, whenFull = 'block', time = new ManualTime() } = options
    const logs: { level: number; msg: string; code?: string }[] = []
    const counters = new ComponentCounters('out', 'destination', 'fake')
    const buffer = await DiskBuffer.open({
      folder,
      log: pino({ base: null }, { write: line => void logs.push(JSON.parse(line)) }),
      clock: time,
      random: () => 0.5,
      wanted: new WantedNames(),
      maxBytes,
      whenFull,
      counters,
      memory: options.memory,
      disk: options.shared,
    })
    return new BufferRun(buffer, { time, counters, logs, fate: options.fate ?? (() => 'delivered') })
  }

  private constructor(
    buffer: DiskBuffer,
    run: { time: ManualTime; counters: ComponentCounters; logs: BufferRun['logs']; fate: Fate },
  ) {
    this.buffer = buffer
    this.time = run.time
    this.counters = run.counters
    this.logs = run.logs
    this.#fate = run.fate
    this.input = new Input(buffer, this.counters)
    this.input.feed()
    let held = 0
    const delivered: Record<string, number> = { events: 0, bytes: 0 }
    this.counters.holds = () => {
      const { events, bytes } = buffer.inFlight()
      return { events: events + held, bytes: bytes + delivered.bytes! }
    }
    buffer.connect({
      write: batch => {
        const numbers = numbersOf(batch)
        this.out.push(...numbers)
        this.batches.push(batch)
        buffer.takenUp(batch.length, batch.bytes)
        held += batch.length
        delivered.bytes! += batch.bytes
        const { settle } = batch.ack
        batch.ack.settle = (status, ...range) => {
          if (status !== 'errored') {
            held -= batch.length
            delivered.bytes! -= batch.bytes
            if (status === 'delivered') this.counters.sent(batch.length, batch.bytes)
            else this.counters.discarded('refused', batch.length, batch.bytes)
          }
          settle.call(batch.ack, status, ...range)
        }
        const fate = this.#fate(numbers)
        if (fate && this.settleSoon) void Promise.resolve().then(() => batch.ack.settle(fate))
        else if (fate) setImmediate(() => batch.ack.settle(fate))
        return undefined
      },
      end: () => {
        this.ended = true
      },
    })
  }

  set fate(fate: Fate) {
    this.#fate = fate
  }

  /** Puts in a batch with these events, each of about `size` bytes. */
  put(numbers: readonly number[], size = 30): Promise<void> | undefined {
    const lines = numbers.map(n => `{"n":${n}}`.padEnd(size - 1, ' '))
    return this.input.write(batchOf(lines, { onSettled: status => this.settled[status].push(...numbers) }))
  }

  /** Lets everything happen that can, for so long. */
  async pass(ms = 0, turns = 12): Promise<void> {
    for (let i = 0; i < turns; i++) await settle()
    if (ms === 0) return
    await this.time.advance(ms)
    for (let i = 0; i < turns; i++) await settle()
  }

  /** Ends the input, waits until everything came out, and closes. */
  async drain(): Promise<void> {
    this.input.end()
    for (let i = 0; i < 400 && !(this.ended && this.held === 0); i++) await this.pass(1000, 2)
    if (!this.ended) throw new Error(`it does not end; ${JSON.stringify(this.logs.slice(-3))}`)
    await this.buffer.close()
  }

  /** Events that came out and are not settled. */
  get held(): number {
    return this.counters.holds().events - this.buffer.inFlight().events
  }

  counter(name: string): number {
    return [...(this.counters.series.get(name)?.[0]?.read() ?? [])].reduce((sum, { value }) => sum + value, 0)
  }

  discarded(reason: string): number {
    return this.counters.discards.get(reason)?.events ?? 0
  }

  /** Whether everything is accounted for. */
  get balanced(): boolean {
    const { events, bytes } = this.counters.imbalance()
    return events === 0 && bytes === 0
  }
}

export function numbersOf(batch: EventBatch): number[] {
  return Array.from({ length: batch.length }, (_, i) => batch.fields(i).n as number)
}
