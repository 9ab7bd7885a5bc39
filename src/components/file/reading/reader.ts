import type { Output } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { STALL_MS } from '../../../engine/flow/stall.js'
import { SilentFileSystem } from '../../../lib/files/disk/file-systems.js'
import { LinkedList } from '../../../lib/linked-list.js'
import { TimeSlices } from '../../../lib/time-slices.js'
import type { Remote } from '../discovery/remote.js'
import { blocks, orders } from '../known/state.js'
import type { OpenFiles } from '../open-files.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from './tailer.js'
import { hasMore, Unfinished, type UnfinishedOptions } from './unfinished.js'
import { Waker } from './waker.js'

/** Maximum portions read in a row from one file while other files wait. A huge backlog must not block these files. */
const SHARE = 2
/** Minimum time between two reads caused by append hints, so that one read gets many small appends. */
const GATHER_MS = 5
const IDLE_MS = 3_600_000

export interface ReaderOptions extends Omit<UnfinishedOptions, 'onReady'> {
  readonly problems: PathProblems
  readonly remote: Remote
  isStopped(): boolean
  readonly files: Pick<OpenFiles, 'unfindable' | 'truncated' | 'hold' | 'hasGrown' | 'tailers'>
  /** Called when the source stops. `tailers`: the files that must be delivered before the run ends. */
  onUnfindable(tailers: readonly Tailer[]): void
  onLost(tailer: Tailer): void
  /** Called before a batch is sent. The batch waits until the promise resolves. undefined: it need not wait. */
  beforeSend(batch: EventBatch): Promise<void> | undefined
  /** Opens the file if it is closed. Returns false if the file cannot be read now. */
  open(tailer: Tailer): boolean
  areHeld(): boolean
  /** The monotonic time until which all files with new data were found. */
  seenAt(): number
}

interface Reading {
  readonly tailer: Tailer
  readonly result: Promise<number | Error> | number | Error
}

/**
 * Reads files with new data in turns, and sends their batches. While it sends a batch, a read from a slow disk
 * continues. Invariants: one portion is in progress at a time. Batches of a file are sent in the order of its bytes.
 * Every batch is sent, or is given back if the run ends before the batch is sent.
 */
export class Reader {
  readonly #options: ReaderOptions
  readonly #slices: TimeSlices
  readonly #waker = new Waker()
  readonly #queue = new LinkedList<Tailer>()
  /** Number of portions that were read in a row from the first file in the queue. */
  #turns = 0
  #reading: Reading | undefined
  #outbox: EventBatch[] = []
  readonly #unfinished: Unfinished
  readonly #hinted = new Set<Tailer>()
  #gatherUntil = 0
  #failure: Error | undefined
  /** Set when the time to deliver is over. Sent batches are then given back. */
  #givenUp = false
  /** Stops waiting for room for the batch that is being sent. */
  #leave: (() => void) | undefined

  constructor(options: ReaderOptions) {
    this.#options = options
    this.#slices = new TimeSlices(options.clock)
    this.#unfinished = new Unfinished({ ...options, onReady: tailer => this.ready(tailer) })
  }

  ready(tailer: Tailer): void {
    if (tailer.isQueued || tailer.held) return
    tailer.becomes(blocks.lookedFor)
    this.#queue.add(tailer)
    this.#waker.wake()
  }

  /** Queues a file reported by a watch, after a short delay if others were reported just before. */
  hint(tailer: Tailer): void {
    if (tailer.isQueued || this.#hinted.has(tailer)) return
    this.#hinted.add(tailer)
    if (this.#hinted.size === 1) this.#waker.wake()
  }

  /** Ends the run with this error after the current portion. */
  fail(error: Error): void {
    this.#failure ??= error
    this.#leave?.()
    this.#waker.wake()
  }

  /** Wakes the run because files that were held may be ready. */
  look(): void {
    this.#waker.wake()
  }

  /** Called when a batch was given back after the source was stopped. */
  giveUp(): void {
    this.#givenUp = true
  }

  /** Sends the unfinished last line of a file that gets no more data. */
  finish(tailer: Tailer, out: Output): void {
    this.#post(tailer.flush(out))
    this.#waker.wake()
  }

  forget(tailer: Tailer): void {
    this.#unfinished.forget(tailer)
    this.#hinted.delete(tailer)
    this.#drop(tailer)
    tailer.becomes(blocks.lookedFor)
  }

  /** Runs until the signal aborts. Without `follow`, also ends when every file was read to its end. */
  async run(out: Output, signal: AbortSignal, follow: boolean): Promise<void> {
    const onAbort = () => {
      this.#leave?.()
      this.#waker.wake()
    }
    signal.addEventListener('abort', onAbort)
    try {
      this.#failure = undefined
      // After a failure, earlier files may have to be read again.
      for (const tailer of this.#options.files.tailers) tailer.turns(orders.restarted)
      while (!signal.aborted && !this.#givenUp) {
        if (this.#failure) throw this.#failure
        const isFresh = await this.#take(out)
        if (!isFresh) this.#begin(out)
        this.#postDue(out, false)
        while (this.#outbox.length > 0 && !this.#failure && !this.#givenUp) {
          await this.#send(this.#outbox.shift()!, out, signal)
          if (signal.aborted) break
        }
        if (isFresh || this.#reading || this.#outbox.length > 0) continue
        if (this.#slices.due) await this.#slices.pause()
        if (!follow) this.#postDue(out, true)
        if (this.#outbox.length > 0 || this.#queue.size > 0) continue
        const isHeld = this.#options.areHeld()
        if (!isHeld) out.caughtUp?.(this.#knownUntil())
        if (!follow && !isHeld) return
        await this.#waker.wait(this.#idleMs())
        this.#slices.restart()
      }
      if (this.#options.isStopped()) await this.#readOutGone(out)
    } finally {
      signal.removeEventListener('abort', onAbort)
      await this.#abandon()
    }
  }

  /** Completely reads all files that the next start could not find, and delivers their unfinished last lines. */
  async #readOutGone(out: Output): Promise<void> {
    await this.#take(out)
    const unfindable = await this.#options.files.unfindable()
    this.#options.onUnfindable(unfindable)
    for (const tailer of unfindable) {
      const origins = [tailer.origin, tailer.successor?.origin]
      for (const batch of this.#outbox.filter(({ origin }) => origins.includes(origin))) {
        this.#outbox.splice(this.#outbox.indexOf(batch), 1)
        await this.#sendLast(batch, out)
      }
      try {
        await this.#readOut(tailer, out)
      } catch (error) {
        // This file system is silent, so the next start determines the file's state.
        if (error instanceof SilentFileSystem) continue
        this.#options.problems.failed(tailer.path, 'read', error)
      }
      // The last line of this file may continue in its successor. The next start finds the successor, but not the
      // beginning of the line.
      const rest = tailer.successor?.flush(out)
      if (rest) await this.#sendLast(rest, out)
      if (tailer.isOpen && tailer.unread > 0) this.#options.onLost(tailer)
    }
  }

  async #readOut(tailer: Tailer, out: Output): Promise<void> {
    tailer.unpark()
    // During the stop, a sweep may still run and release the file, or find that the file was truncated.
    while (!this.#givenUp && tailer.isOpen) {
      const left = tailer.left()
      const taken = left > 0 ? tailer.take(await tailer.read(left), out) : undefined
      const isOver = left <= 0 || taken === 'truncated'
      const batch = isOver ? tailer.flush(out) : taken
      if (batch) await this.#sendLast(batch, out)
      if (isOver) return
    }
  }

  /** Sends a batch during the stop. If an earlier batch was given back, this one is given back, too. */
  async #sendLast(batch: EventBatch, out: Output): Promise<void> {
    await this.#options.beforeSend(batch)
    if (this.#givenUp) this.#post(batch)
    else await out.send(batch)
  }

  /** Turns the current portion into a batch. Returns true if the batch should be sent before the next read begins. */
  async #take(out: Output): Promise<boolean> {
    const reading = this.#reading
    if (!reading) return false
    const result = await this.#result(reading)
    this.#reading = undefined
    const { tailer } = reading
    try {
      const taken = tailer.take(result, out)
      if (taken === 'truncated') this.#options.files.truncated(tailer)
      else this.#post(taken)
      this.#worked(tailer)
    } catch (error) {
      this.#failed(tailer, error)
    }
    return this.#outbox.length > 0 && !(reading.result instanceof Promise)
  }

  async #result({ result }: Reading): Promise<number | Error> {
    if (result instanceof Promise) {
      const length = await result
      this.#slices.restart()
      return length
    }
    // Reads that return synchronously must not block the event loop.
    if (this.#slices.due) await this.#slices.pause()
    return result
  }

  #worked(tailer: Tailer): void {
    if (!tailer.failed) return
    tailer.becomes(blocks.worked)
    this.#options.problems.over(tailer.path)
  }

  /** Handles a failed read. The file is read again when the next sweep finds it. */
  #failed(tailer: Tailer, error: unknown): void {
    // When a silent file system responds again, a sweep finds the file.
    const isSilent = error instanceof SilentFileSystem
    tailer.becomes(isSilent ? blocks.moved : blocks.read)
    if (!isSilent) this.#options.problems.failed(tailer.path, 'read', error)
    this.#drop(tailer)
  }

  #drop(tailer: Tailer): void {
    if (this.#queue.first === tailer) this.#turns = 0
    this.#queue.delete(tailer)
    tailer.pause()
  }

  #post(batch: EventBatch | undefined): void {
    if (batch) this.#outbox.push(batch)
  }

  #begin(out: Output): void {
    this.#gather()
    let waiting = 0
    while (this.#queue.size > waiting && !this.#slices.due) {
      const tailer = this.#queue.first!
      const { waits } = tailer
      if (this.#turns >= SHARE || waits) {
        if (waits) {
          waiting++
          tailer.pause()
        }
        this.#putLast(tailer)
        continue
      }
      // If this file leaves the queue, files that wait for it may be read next.
      waiting = 0
      if (isDelayed(tailer)) {
        this.#drop(tailer)
        this.#options.files.hold(tailer)
        continue
      }
      try {
        let left = this.#options.open(tailer) ? tailer.left() : 0
        // If the file was still empty when it was opened, its first bytes were not compared.
        if (left > 0 && tailer.isUncompared) left = this.#options.open(tailer) ? tailer.left() : 0
        if (left > 0 && this.#waitsForEarlier(tailer)) continue
        if (left > 0) {
          const before = tailer.takeParts()
          if (before) this.#unfinished.note(before)
          this.#turns++
          this.#reading = { tailer, result: tailer.read(left) }
          return
        }
        if (left < 0) {
          this.#options.files.truncated(tailer)
          continue
        }
        this.#drop(tailer)
        if (tailer.isOpen) this.#rest(tailer, out)
      } catch (error) {
        this.#failed(tailer, error)
      }
    }
  }

  /**
   * Whether this file must wait for earlier files with the same name. Queues those that have grown. This file must
   * wait for them, because programs write to an earlier file until they open the new file.
   */
  #waitsForEarlier(tailer: Tailer): boolean {
    if (tailer.order === 'behind-checked' || tailer.order === 'free-checked') return false
    tailer.turns(orders.checked)
    for (const one of tailer.earlier) {
      const isRead = !one.copy && !one.block
      if (isRead && this.#hasGrown(one)) this.ready(one)
      if ((isRead && one.isQueued) || mayDelay(one, tailer)) tailer.turns(orders.delayed)
    }
    return tailer.waits || isDelayed(tailer)
  }

  #hasGrown(tailer: Tailer): boolean {
    if (!tailer.isOpen) return this.#options.files.hasGrown(tailer)
    // An unfinished line that was dropped from memory is read again only if the file has changed.
    return tailer.parked ? tailer.glance() : hasMore(tailer)
  }

  /**
   * Puts a file last in the queue and releases its memory, because memory use must not depend on the number of files.
   */
  #putLast(tailer: Tailer): void {
    this.#turns = 0
    if (this.#queue.size === 1) return
    this.#queue.delete(tailer)
    this.#queue.add(tailer)
    try {
      tailer.releaseMemory()
    } catch (error) {
      this.#failed(tailer, error)
    }
  }

  #rest(tailer: Tailer, out: Output): void {
    tailer.turns(orders.atEnd)
    tailer.releaseMemory()
    this.#unfinished.note(tailer)
    const isKept = this.#unfinished.trim() && !this.#unfinished.isDue(tailer)
    if (tailer.isOver && !tailer.hasParts ? tailer.pending === 0 : isKept) return
    this.#unfinished.forget(tailer)
    this.#post(tailer.flush(out))
  }

  /** Posts the unfinished parts that are due, or all unfinished parts if `all`. */
  #postDue(out: Output, all: boolean): void {
    for (const tailer of this.#unfinished.due(all)) this.#post(tailer.flush(out))
  }

  #gather(): void {
    const now = this.#options.clock.now()
    if (this.#hinted.size === 0 || now < this.#gatherUntil) return
    this.#gatherUntil = now + GATHER_MS
    for (const tailer of this.#hinted) this.ready(tailer)
    this.#hinted.clear()
  }

  /** The time until which everything that was written is known to be read, if no file is queued. */
  #knownUntil(): number {
    const { clock, seenAt } = this.#options
    return Math.min(seenAt(), this.#hinted.size > 0 ? this.#gatherUntil - GATHER_MS : clock.now())
  }

  #idleMs(): number {
    const gather = this.#hinted.size > 0 ? this.#gatherUntil : Number.POSITIVE_INFINITY
    return Math.max(1, Math.min(IDLE_MS, Math.min(gather, this.#unfinished.dueAt) - this.#options.clock.now()))
  }

  /** Sends the batch. Resolves when there is room for another batch, or when the run must end. */
  async #send(batch: EventBatch, out: Output, signal: AbortSignal): Promise<void> {
    await this.#options.beforeSend(batch)
    const began = this.#options.clock.now()
    await new Promise<void>((resolve, reject) => {
      this.#leave = resolve
      out.send(batch).then(resolve, error => (signal.aborted ? resolve() : reject(error)))
      if (signal.aborted) resolve()
    })
    if (this.#options.clock.now() - began >= STALL_MS) this.fellBehind()
  }

  /** Called when nothing was read for a while. Marks the files' present content as backlog. */
  fellBehind(): void {
    for (const tailer of [...this.#queue, ...this.#hinted]) {
      if (tailer.fd !== undefined && !this.#options.remote.has(tailer.path)) tailer.glance()
      tailer.fellBehind()
    }
  }

  async #abandon(): Promise<void> {
    this.#leave = undefined
    const reading = this.#reading
    this.#reading = undefined
    // If a read may never return, its memory and descriptor are not released.
    if (reading && (await this.#returns(reading))) reading.tailer.abandon()
    // Give back the batches that were not sent. Their events are read again from the committed position.
    for (const batch of this.#outbox.splice(0)) batch.ack.settle('errored')
  }

  /** Waits for a read. Resolves to true when it has returned, or to false if its file system does not respond. */
  async #returns({ tailer, result }: Reading): Promise<boolean> {
    if (!(result instanceof Promise)) return true
    const returned = result.then(() => true)
    const { remote } = this.#options
    return await Promise.race([returned, remote.answers(tailer.path).then(answers => answers && returned)])
  }
}

/** Whether a sweep must look for an earlier file before this one is read. */
function isDelayed(tailer: Tailer): boolean {
  return tailer.isBehind && tailer.earlier.some(one => mayDelay(one, tailer))
}

/**
 * A copy does not wait for held files, because these files may be waiting for the copy. Only reading the copy shows
 * which file it is a copy of.
 */
function mayDelay(earlier: Tailer, tailer: Tailer): boolean {
  return earlier.isPostponed && !(tailer.copy && earlier.held)
}
