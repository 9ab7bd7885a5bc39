import type { Level, Logger } from 'pino'
import type { CounterSnapshot } from '../../../engine/run/measure/counter-snapshot.js'
import { after, deferred, every } from '../../../lib/time.js'
import type { BodyBytes } from '../../../net/http/events/send-body.js'
import type { Refusal } from '../../../net/http/server/refusal.js'
import { NotHosted } from '../hosted-config.js'
import { checkedLine, checkedMessage, checkPipelines, checkReply } from './from-process.js'
import type { Death, Link, StartLink } from './link.js'
import type { Call, CallName, Calls, Facts, Failure, Look, PipelineState } from './messages.js'
import { refusalOf } from './refusal-data.js'

const LOOK_MS = 2000
/** Its memory is measured so often: it is not asked, since it may be busy. Until then, the kernel refuses it much more. */
const MEASURE_MS = 200
/** Checks in a deadline, each of which counts for its part: a service that stood still itself does not blame a process. */
const CHECKS = 10
/** Until its first word a process takes what it takes to start. */
const START_MS = 30_000
/** An end that was asked for takes no longer. */
const END_MS = 3000
/** Calls that are answered with what the process looks like then. */
const LOOKS: ReadonlySet<CallName> = new Set(['start', 'update', 'stop', 'forget', 'look'])

export interface ProcessBounds {
  /** A process that answers nothing for so long is ended. */
  readonly deadlineMs: number
  /** Bytes of resident memory. */
  readonly maxMemory: number
}

export interface ProcessOptions extends ProcessBounds {
  readonly account: string
  /** By the monotonic clock. */
  readonly startedAt: number
  readonly log: Logger
  readonly facts: () => Facts
  readonly looked: (look: Look) => void
  readonly counted: (counters: readonly CounterSnapshot[]) => void
  /** `death`: undefined when it was asked to end. */
  readonly ended: (death: Death | undefined, text: string) => void
  readonly refusal: () => Refusal
}

interface Waiting {
  readonly name: CallName
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

/** The process in which the pipelines of one account run: asks it, watches it, and ends it when it does not answer. */
export class AccountProcess {
  readonly #options: ProcessOptions
  readonly #link: Link
  readonly #waiting = new Map<number, Waiting>()
  readonly #stopWatching: readonly (() => void)[]
  readonly #gone = deferred()
  /** All that were ever to run in it. */
  readonly #pipelines = new Set<string>()
  /** Who hears of the state of a pipeline. */
  readonly #states = new Map<string, (state: PipelineState) => void>()
  #calls = 0
  #isGone = false
  #isEnding = false
  #death: Death | undefined
  #hasSpoken = false
  /** How long an answer has been due. */
  #dueMs = 0
  #sinceLook = 0
  #looking: Promise<Look> | undefined
  #memory = 0

  constructor(start: StartLink, options: ProcessOptions) {
    this.#options = options
    this.#link = start(options.account, {
      message: message => this.#receive(message),
      ended: ({ outOfMemory, text }) => {
        this.#ended(outOfMemory ? 'memory' : 'crashed', text)
        this.#gone.resolve()
      },
    })
    const checkMs = Math.min(LOOK_MS, options.deadlineMs / CHECKS)
    this.#stopWatching = [every(checkMs, () => this.#check(checkMs)), every(MEASURE_MS, () => this.#measure())]
  }

  get isGone(): boolean {
    return this.#isGone
  }

  get startedAt(): number {
    return this.#options.startedAt
  }

  /** What those hear who wait when it dies. */
  refusal(): Refusal {
    return this.#options.refusal()
  }

  get pid(): number | undefined {
    return this.#link.pid
  }

  /** When it was measured last. */
  get memory(): number {
    return this.#memory
  }

  /** Rejects with a Refusal, with NotHosted, or when the process ends. */
  call<N extends CallName>(name: N, of: Calls[N]['of'], body?: BodyBytes): Promise<Calls[N]['gets']> {
    if (this.#isGone) return Promise.reject(this.#options.refusal())
    const id = ++this.#calls
    if (name === 'start') this.#pipelines.add((of as Calls['start']['of']).id)
    return new Promise<Calls[N]['gets']>((resolve, reject) => {
      this.#waiting.set(id, { name, resolve: resolve as (value: never) => void, reject })
      // Not with each request: there may be many paths.
      const facts = name === 'take' ? undefined : this.#options.facts()
      this.#link.send({ id, name, of, facts } satisfies Call<N>, body)
    })
  }

  /** Tells the state of a pipeline, before the call returns that changed it. */
  onState(pipeline: string, changed: (state: PipelineState) => void): void {
    this.#states.set(pipeline, changed)
  }

  /** Asks how it looks; once for all who want to know. */
  look(fresh = false): Promise<Look> {
    this.#looking ??= this.call('look', { fresh }).finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  /** Ends in order what has no pipeline any more. Resolves when it is gone. */
  async end(): Promise<void> {
    if (!this.#isEnding && !this.#isGone) {
      this.#isEnding = true
      this.#link.end()
      const cancel = after(END_MS, () => this.#link.kill())
      void this.#gone.promise.then(cancel)
    }
    await this.#gone.promise
  }

  /** Ends it at once; the service is ending. */
  kill(): void {
    this.#isEnding = true
    if (!this.#isGone) this.#link.kill()
  }

  #measure(): void {
    this.#memory = this.#link.memory() ?? this.#memory
    if (this.#memory > this.#options.maxMemory) this.#kill('memory')
  }

  #check(checkMs: number): void {
    if (this.#isEnding) return
    const { deadlineMs } = this.#options
    this.#sinceLook += checkMs
    if (this.#looking) this.#dueMs += checkMs
    if (this.#dueMs > (this.#hasSpoken ? deadlineMs : Math.max(deadlineMs, START_MS))) this.#kill('looped')
    else if (this.#sinceLook >= LOOK_MS && !this.#looking) {
      this.#sinceLook = 0
      this.look().catch(() => {})
    }
  }

  #kill(death: Death): void {
    if (this.#isGone || this.#death) return
    this.#death = death
    this.#link.kill()
  }

  /** Throws at what no process says. */
  #receive(received: unknown): void {
    const message = checkedMessage(received)
    // Whatever it says: it is not stuck.
    this.#dueMs = 0
    this.#hasSpoken = true
    switch (message.type) {
      case 'reply': {
        const waiting = this.#waiting.get(message.id)
        checkReply(waiting?.name, message.value)
        if (LOOKS.has(waiting!.name)) this.#options.looked(message.value as Look)
        this.#settle(message.id)?.resolve(message.value as never)
        break
      }
      case 'failed':
        this.#settle(message.id)?.reject(errorOf(message.failure))
        break
      case 'state':
        this.#states.get(message.pipeline)?.(message.state)
        break
      case 'counted':
        checkPipelines(message.counters, this.#pipelines)
        this.#options.counted(message.counters)
        break
      case 'log':
        this.#log(message.line)
    }
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }

  /** As the process would have logged it. */
  #log(line: string): void {
    const { log } = this.#options
    const { level, msg, ...fields } = checkedLine(line)
    log[(log.levels.labels[level] as Level | undefined) ?? 'info'](fields, msg)
  }

  #ended(found: Death, text: string): void {
    this.#isGone = true
    for (const stop of this.#stopWatching) stop()
    this.#options.ended(this.#isEnding ? undefined : (this.#death ?? found), text)
    for (const { reject } of this.#waiting.values()) reject(this.#options.refusal())
    this.#waiting.clear()
  }
}

function errorOf(failure: Failure): Error {
  return 'refusal' in failure ? refusalOf(failure.refusal) : new NotHosted(failure.error)
}
