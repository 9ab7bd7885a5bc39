import { serialize } from 'node:v8'
import type { Level, Logger } from 'pino'
import type { ServicePlugin } from '../../../engine/config/plugins/read-plugins.js'
import type { CounterSnapshot } from '../../../engine/run/measure/counter-snapshot.js'
import { BoundedProcess, residentMemory } from '../../../lib/bounded-process.js'
import { frameHead, readHead } from '../../../lib/frames.js'
import { after, type Clock, deferred, every } from '../../../lib/time.js'
import type { BodyBytes } from '../../../net/http/events/send-body.js'
import type { Refusal } from '../../../net/http/server/refusal.js'
import { NotHosted } from '../hosted-config.js'
import { checkedLine, checkedMessage, checkPipelines, checkReply } from './from-process.js'
import {
  type CallFailure,
  type CallName,
  type Instructions,
  NO_FIGURES,
  type PipelineState,
  type ProcessCall,
  refusalFrom,
  type Snapshot,
  type WorkerCalls,
} from './messages.js'

/** Why a process ended although the service did not end it. */
export type Death = 'looped' | 'memory' | 'crashed'

export interface LinkEvents {
  /** Throws if the message is not valid. The caller must then kill the process. */
  message(message: unknown): void
  /** The process has ended. `outOfMemory`: the process reported that it ran out of memory. */
  ended(how: { readonly outOfMemory: boolean; readonly text: string }): void
}

export interface ProcessLink {
  readonly pid: number | undefined
  /** Bytes of resident memory, measured from outside the process; undefined if not known. */
  memory(): number | undefined
  /** Sends a call. Only the call `take` has a `body`, which is released after it was sent. */
  send(call: ProcessCall, body?: BodyBytes): void
  /** Makes the process end when its work is done. */
  end(): void
  kill(): void
}

export type StartLink = (account: string, events: LinkEvents) => ProcessLink

/** Share of a process's memory for V8's heap. The other memory is for buffers and the program itself. */
const HEAP = 3 / 4
/** Variables that Node.js itself reads for the time zone and certificates. Pipelines do not get other variables. */
const VARIABLES = ['TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']
/** With these limits, a message takes at most 50 MB of memory. The largest messages have counters with many series. */
const MOST_HEAD = 8 * 1024 * 1024
const MOST_VALUES = 256 * 1024

/** The first message to a process. Secrets are sent with pipelines later, never in arguments or the environment. */
export interface ProcessSetup {
  readonly account: string
  readonly folder: string
  readonly maxDisk: number
  readonly maxSeries: number
  readonly logLevel: string
  readonly files: readonly string[]
  readonly never: readonly string[]
  readonly urls: readonly string[] | 'all'
  readonly addresses: readonly string[]
  readonly plugins: readonly ServicePlugin[]
}

interface ForkOptions {
  readonly setup: Omit<ProcessSetup, 'account'>
  readonly maxMemory: number
  readonly env: NodeJS.ProcessEnv
  /** The program: daemon/serve/pipeline-process.js. */
  readonly entry: URL
}

export function forkProcesses({ setup, maxMemory, env, entry }: ForkOptions): StartLink {
  const passed = VARIABLES.filter(name => env[name] !== undefined).map(name => [name, env[name]])
  return (account, events) => {
    const child = new BoundedProcess(entry, {
      maxHeap: maxMemory * HEAP,
      maxMemory,
      env: Object.fromEntries(passed),
      mostHead: MOST_HEAD,
      begin: head => ({ most: 0, take: () => events.message(readHead(head, MOST_VALUES)) }),
      ended: ({ outOfMemory, wrong, text, code, signal }) =>
        events.ended({ outOfMemory, text: wrong ?? `${text}\n${signal ?? `exit code ${code}`}`.trim() }),
    })
    const send = (message: object, body?: BodyBytes) =>
      child.send(
        frameHead(serialize(message), body?.bytes.length ?? 0),
        body?.bytes,
        error => error || body?.release?.(),
      )
    send({ ...setup, account } satisfies ProcessSetup)
    const { pid } = child
    return {
      pid,
      memory: () => (pid === undefined ? undefined : residentMemory(pid)),
      send,
      end: () => child.end(),
      kill: () => child.kill(),
    }
  }
}

const INSPECT_MS = 2000
/** Interval of memory measurements from outside the process. In between, the kernel limits the process's memory. */
const MEASURE_MS = 200
/**
 * Number of checks per deadline. Each check adds only its interval to the waiting time, so that a pause of the whole
 * service does not count.
 */
const CHECKS = 10
/** Minimum deadline for the first message, since a process needs time to start. */
const START_MS = 30_000
/** A process that does not end within this time is killed. */
const END_MS = 3000
const GIVES_SNAPSHOT: ReadonlySet<CallName> = new Set(['start', 'update', 'stop', 'forget', 'inspect'])

export interface ProcessBounds {
  /** A process that does not answer for this long is killed. */
  readonly deadlineMs: number
  /** Maximum bytes of resident memory. */
  readonly maxMemory: number
}

export interface ProcessOptions extends ProcessBounds {
  readonly account: string
  readonly clock: Clock
  readonly log: Logger
  readonly instructions: () => Instructions
  readonly onSnapshot: (snapshot: Snapshot) => void
  readonly counted: (counters: readonly CounterSnapshot[]) => void
  /** `death` is undefined if the service ended the process. */
  readonly ended: (death: Death | undefined, text: string) => void
  readonly refusal: () => Refusal
}

interface Waiting {
  readonly name: CallName
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

/** The process that runs the pipelines of one account. Calls and monitors the process, and kills it if it is stuck. */
export class AccountProcess {
  /** When the process was started, on the monotonic clock. */
  readonly startedAt: number
  /** The newest state of each pipeline that was started in the process. */
  readonly states = new Map<string, PipelineState>()
  isGone = false
  isEnding = false
  /** Bytes of resident memory at the last measurement. */
  memory = 0
  /** Figures about the account's requests to receivers, from the last snapshot. */
  budget = NO_FIGURES
  readonly #options: ProcessOptions
  readonly #link: ProcessLink
  readonly #waiting = new Map<number, Waiting>()
  readonly #stopWatching: readonly (() => void)[]
  readonly #gone = deferred()
  #calls = 0
  #death: Death | undefined
  #hasSpoken = false
  /** How long the service has waited for an answer, in milliseconds. */
  #dueMs = 0
  #sinceInspected = 0
  #inspecting: Promise<Snapshot> | undefined

  constructor(start: StartLink, options: ProcessOptions) {
    this.#options = options
    this.startedAt = options.clock.now()
    this.#link = start(options.account, {
      message: message => this.#receive(message),
      ended: ({ outOfMemory, text }) => {
        this.#ended(outOfMemory ? 'memory' : 'crashed', text)
        this.#gone.resolve()
      },
    })
    const checkMs = Math.min(INSPECT_MS, options.deadlineMs / CHECKS)
    this.#stopWatching = [every(checkMs, () => this.#check(checkMs)), every(MEASURE_MS, () => this.#measure())]
  }

  /** The error for waiting callers when the process dies. */
  refusal(): Refusal {
    return this.#options.refusal()
  }

  get pid(): number | undefined {
    return this.#link.pid
  }

  /** Rejects with NotHosted or Refusal. If the process ends, rejects with Refusal. */
  call<N extends CallName>(name: N, of: WorkerCalls[N]['of'], body?: BodyBytes): Promise<WorkerCalls[N]['gets']> {
    if (this.isGone) return Promise.reject(this.#options.refusal())
    const id = ++this.#calls
    return new Promise<WorkerCalls[N]['gets']>((resolve, reject) => {
      this.#waiting.set(id, { name, resolve: resolve as (value: never) => void, reject })
      // Instructions are not sent with each request, since the list of pipelines may be long.
      const instructions = name === 'take' ? undefined : this.#options.instructions()
      this.#link.send({ id, name, of, instructions } satisfies ProcessCall<N>, body)
    })
  }

  /** Asks for a snapshot. Concurrent callers share one call. */
  inspect(fresh = false): Promise<Snapshot> {
    this.#inspecting ??= this.call('inspect', { fresh }).finally(() => {
      this.#inspecting = undefined
    })
    return this.#inspecting
  }

  /** Ends the process after its pipelines have ended. Resolves when the process is gone. */
  async end(): Promise<void> {
    if (!this.isEnding && !this.isGone) {
      this.isEnding = true
      this.#link.end()
      const cancel = after(END_MS, () => this.#link.kill())
      void this.#gone.promise.then(cancel)
    }
    await this.#gone.promise
  }

  /** Kills the process, because the service is stopping. */
  kill(): void {
    this.isEnding = true
    if (!this.isGone) this.#link.kill()
  }

  #measure(): void {
    this.memory = this.#link.memory() ?? this.memory
    if (this.memory > this.#options.maxMemory) this.#kill('memory')
  }

  #check(checkMs: number): void {
    if (this.isEnding) return
    const { deadlineMs } = this.#options
    this.#sinceInspected += checkMs
    if (this.#inspecting) this.#dueMs += checkMs
    if (this.#dueMs > (this.#hasSpoken ? deadlineMs : Math.max(deadlineMs, START_MS))) this.#kill('looped')
    else if (this.#sinceInspected >= INSPECT_MS && !this.#inspecting) {
      this.#sinceInspected = 0
      this.inspect().catch(() => {})
    }
  }

  #kill(death: Death): void {
    if (this.isGone || this.#death) return
    this.#death = death
    this.#link.kill()
  }

  /** Throws if the message is not valid. */
  #receive(received: unknown): void {
    const message = checkedMessage(received)
    // Any message shows that the process is not stuck.
    this.#dueMs = 0
    this.#hasSpoken = true
    switch (message.type) {
      case 'reply': {
        const waiting = this.#waiting.get(message.id)
        checkReply(waiting?.name, message.value)
        if (GIVES_SNAPSHOT.has(waiting!.name)) this.#onSnapshot(message.value as Snapshot)
        this.#settle(message.id)?.resolve(message.value as never)
        break
      }
      case 'failed':
        this.#settle(message.id)?.reject(errorOf(message.failure))
        break
      case 'state':
        if (this.states.has(message.pipeline)) this.states.set(message.pipeline, message.state)
        break
      case 'counted':
        checkPipelines(message.counters, this.states)
        this.#options.counted(message.counters)
        break
      case 'log':
        this.#log(message.line)
    }
  }

  #onSnapshot(snapshot: Snapshot): void {
    this.budget = snapshot.budget
    this.#options.onSnapshot(snapshot)
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }

  /** Logs a line as the process would have logged it. */
  #log(line: string): void {
    const { log } = this.#options
    const { level, msg, ...fields } = checkedLine(line)
    log[(log.levels.labels[level] as Level | undefined) ?? 'info'](fields, msg)
  }

  #ended(found: Death, text: string): void {
    this.isGone = true
    for (const stop of this.#stopWatching) stop()
    this.#options.ended(this.isEnding ? undefined : (this.#death ?? found), text)
    for (const { reject } of this.#waiting.values()) reject(this.#options.refusal())
    this.#waiting.clear()
  }
}

function errorOf(failure: CallFailure): Error {
  return 'refusal' in failure ? refusalFrom(failure.refusal) : new NotHosted(failure.error)
}
