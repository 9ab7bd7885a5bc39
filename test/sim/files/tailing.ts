import type { Logger } from 'pino'
import { endProcess } from '../../../src/components/file/descriptors.js'
import type { FileOptions } from '../../../src/components/file/options.js'
import { fileSource } from '../../../src/components/file/source.js'
import type { Checkpoints, Output, Source, SourceContext } from '../../../src/core/component.js'
import { GivenBackError } from '../../../src/core/errors.js'
import { Ack, type OnSettled } from '../../../src/core/event/ack.js'
import type { EventBatch } from '../../../src/core/event/batch.js'
import type { Origin } from '../../../src/core/event/origin.js'
import { ComponentCounters } from '../../../src/engine/flow/counters.js'
import { WantedNames } from '../../../src/lib/formats/json-scan.js'
import { systemClock } from '../../../src/lib/time.js'
// What the source loads when it needs it. Loading takes real time, which a seed must not depend on.
import '../../../src/components/file/file-source.js'
import type { Disk } from '../disk-calls.js'
import { timers } from '../globals.js'
import { logIn } from '../process.js'
import type { World } from '../world.js'
import type { Ledger, Line } from './ledger.js'

/** What the source runs in, outside of the file system. */
export interface Surroundings {
  readonly options: object
  /** How long a batch is on its way until it is acknowledged, at most. */
  readonly ackMs: number
  /** How likely there is no room after a batch, and for how long. */
  readonly blocks: number
  readonly blockMs: number
  /** How likely a batch comes back. */
  readonly comesBack: number
  /** How long changed positions wait until they are saved. */
  readonly saveMs: number
}

/** The document with the positions, which outlives a process. */
export interface SavedPositions {
  document: { readonly files: readonly { readonly path: string; readonly file?: string }[] } | undefined
}

const STOP_MS = 120_000
const AGAIN_MS = 500

interface Sent {
  readonly lines: readonly Line[]
  isDelivered: boolean
  /** Whether an unsent batch came back that may be of another file. */
  mayGoBack: boolean
}

/** The file source in one process, from its start to its end. */
export class Tailing {
  readonly counters = new ComponentCounters('in', 'source', 'file')
  readonly #world: World
  readonly #disk: Disk
  readonly #ledger: Ledger
  readonly #surroundings: Surroundings
  readonly #positions: SavedPositions
  readonly #abort = new AbortController()
  #source: Source | undefined
  #running: Promise<void> = Promise.resolve()
  #isDead = false
  /** Batches by their file, in the order in which they were sent; those before a saved position are not here any more. */
  readonly #sent = new Map<Origin, Sent[]>()
  /** Lines before positions that are not saved yet. */
  #unsaved: Line[] = []
  /** Of the batches that were made and not sent. */
  readonly #unsent = new Set<Ack>()
  #onTheWay = 0

  constructor(world: World, disk: Disk, ledger: Ledger, surroundings: Surroundings, positions: SavedPositions) {
    this.#world = world
    this.#disk = disk
    this.#ledger = ledger
    this.#surroundings = surroundings
    this.#positions = positions
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** It looks only for names now, and no longer for what files have. */
  get isStopping(): boolean {
    return this.#abort.signal.aborted
  }

  async start(): Promise<void> {
    const world = this.#world
    world.isAlive = true
    world.say(() => '--- the source starts')
    world.onKilled = () => {
      this.#isDead = true
    }
    const source = await fileSource.create(
      fileSource.options.parse(this.#surroundings.options) as FileOptions,
      this.#context(),
    )
    if (this.#isDead) return
    this.#source = source
    this.#running = this.#run(source)
  }

  /** Runs it again when a batch came back, as the engine does. */
  async #run(source: Source): Promise<void> {
    while (!this.#isDead) {
      try {
        return await source.run(this.#output, this.#abort.signal)
      } catch (error) {
        if (this.#isDead) return
        if (!(error instanceof GivenBackError)) this.#world.violate(`the run was rejected: ${(error as Error).stack}`)
        this.#unsent.clear()
        await new Promise<void>(resolve => this.#world.after(AGAIN_MS, resolve, true))
        this.#ledger.rerun()
      }
    }
  }

  /** The system kills the process. */
  kill(): void {
    if (!this.#isDead) this.#world.kill()
  }

  /** The process has ended. */
  bury(): void {
    this.kill()
    endProcess()
    timers.clear()
    this.#disk.killed()
  }

  /** Stops it in order: everything that is on the way arrives. */
  async stop(): Promise<void> {
    const world = this.#world
    world.say(() => '--- stop')
    this.#abort.abort()
    const until = world.now + STOP_MS
    let isOver = false
    void this.#running.then(() => {
      isOver = true
    })
    while (!this.#isDead && (!isOver || this.#onTheWay > 0) && world.now < until) await world.wait(50)
    if (this.#isDead) return
    if (!isOver) return world.violate('the stop did not come to its end')
    await this.#source!.stop?.(AbortSignal.timeout(1))
    await this.#flush()
    // Some files are closed by other threads.
    await world.wait(2 * this.#disk.faults.latencyMs)
    if (this.#disk.opened.length > 0) world.violate(`files are left open: ${this.#disk.opened.join(', ')}`)
  }

  value(name: string): number {
    const all = [...(this.counters.series.get(name) ?? [])].flatMap(series => [...series.read()])
    return all.reduce((sum, { value }) => sum + value, 0)
  }

  #context(): SourceContext {
    return {
      id: 'in',
      log: this.#log,
      clock: systemClock,
      metrics: this.counters,
      checkpoints: this.#checkpoints(),
      origin: (codec, path) => ({
        source: 'in',
        host: 'simulated',
        codec,
        wanted: Object.assign(new WantedNames(), { areIdsUsed: false }),
        ...(path ? { path } : {}),
      }),
    } as Partial<SourceContext> as SourceContext
  }

  /** A process that was killed in a call logs nothing after it. */
  get #log(): Logger {
    const log = logIn(this.#world)
    const unlessDead = (level: 'info' | 'warn' | 'error') => (fields: object, text?: string) => {
      if (!this.#isDead) log[level](fields, text)
    }
    return { ...log, info: unlessDead('info'), warn: unlessDead('warn'), error: unlessDead('error') } as Logger
  }

  #checkpoints(): Checkpoints {
    const world = this.#world
    let isPlanned = false
    let snapshot: () => unknown = () => undefined
    const take = () => {
      const document = JSON.stringify(snapshot())
      const lines = this.#unsaved
      this.#unsaved = []
      return () => {
        if (this.#isDead) return
        this.#positions.document = JSON.parse(document)
        for (const line of lines) line.isSaved = true
        checkpoints.savedAt = Date.now()
      }
    }
    // One after the other, as the engine saves.
    let saving = Promise.resolve()
    const flush = () => {
      saving = saving.then(
        () =>
          new Promise<void>(resolve => {
            if (this.#isDead) return
            isPlanned = false
            const save = take()
            world.after(
              world.random.next() * 10,
              () => {
                save()
                resolve()
              },
              true,
            )
          }),
      )
      return saving
    }
    this.#flush = flush
    const checkpoints = {
      savedAt: 0,
      read: () => this.#positions.document,
      provide: (next: () => unknown) => {
        snapshot = next
      },
      changed: () => {
        if (isPlanned || this.#isDead) return
        isPlanned = true
        world.after(this.#surroundings.saveMs, () => void flush(), true)
      },
      flush,
    }
    return checkpoints
  }

  #flush: () => Promise<void> = async () => {}

  get #output(): Output {
    const ack = (onSettled: OnSettled) => {
      const made: Ack = new Ack((status, ...rest) => {
        // A batch that was not sent comes back, too. Its file is not known.
        if (status === 'errored' && this.#unsent.delete(made))
          for (const ofFile of this.#sent.values()) {
            for (const sent of ofFile) sent.mayGoBack = true
            this.#goesBack(ofFile)
          }
        onSettled(status, ...rest)
      })
      this.#unsent.add(made)
      return made
    }
    return { ack, send: batch => this.#take(batch) }
  }

  async #take(batch: EventBatch): Promise<void> {
    if (this.#isDead) return await new Promise(() => {})
    this.#unsent.delete(batch.ack)
    const world = this.#world
    const { ackMs, blocks, blockMs, comesBack } = this.#surroundings
    const { path = '' } = batch.origin
    const lines: Line[] = []
    for (let i = 0; i < batch.length; i++) {
      const line = this.#ledger.arrived(path, batch.line(i).toString('latin1'))
      if (line) lines.push(line)
    }
    world.say(() => `arrived from ${path.slice(path.lastIndexOf('/') + 1)}: ${shown(lines)}`)
    const sent: Sent = { lines, isDelivered: false, mayGoBack: false }
    const ofFile = this.#sent.get(batch.origin) ?? []
    this.#sent.set(batch.origin, ofFile)
    ofFile.push(sent)
    this.#onTheWay++
    const status = world.random.chance(comesBack) ? 'errored' : 'delivered'
    const settle = () => {
      this.#onTheWay--
      // A batch from before its file was read again changes nothing.
      if (status === 'errored' && (ofFile.includes(sent) || sent.mayGoBack)) this.#goesBack(ofFile)
      else if (status === 'delivered') this.#isDelivered(batch.origin, sent)
      batch.ack.settle(status)
    }
    world.after(world.random.next() * ackMs, settle, true)
    if (world.random.chance(blocks)) {
      const ms = world.random.next() * blockMs
      await new Promise<void>(resolve => world.after(ms, resolve, true))
    }
  }

  #isDelivered(origin: Origin, sent: Sent): void {
    sent.isDelivered = true
    for (const line of sent.lines) line.isDelivered = true
    const ofFile = this.#sent.get(origin) ?? []
    while (ofFile[0]?.isDelivered) this.#unsaved.push(...ofFile.shift()!.lines)
  }

  /** A batch comes back: everything behind the position of its file is sent again. */
  #goesBack(ofFile: Sent[]): void {
    this.#world.say(() => 'a batch comes back')
    this.#ledger.cameBack(new Set(this.#unsaved))
    ofFile.length = 0
  }
}

function shown(lines: readonly Line[]): string {
  const marks = lines.map(({ log, number }) => `${log}-${number}`)
  return marks.length < 4 ? marks.join(' ') : `${marks[0]} … ${marks.at(-1)} (${marks.length})`
}
