import type { Logger } from 'pino'
import { after, every } from '../../lib/time.js'
import { Notifier, notifyProgram, type Send } from './notifier.js'
import { oneLine, type ServiceState } from './service-state.js'

/** What runs, as systemd wants to know it. */
export interface Subject {
  state(): ServiceState
  /** Looked at several times in an interval of the watchdog; whether all goes on as it should. Without it: yes. */
  goesOn?(): boolean | Promise<boolean>
}

const LOOK_MS = 1000
/** While it starts: others wait for it. */
const FIRST_LOOKS_MS = 50
/** Of the time for the start: more is asked for while it takes. */
const EXTEND_MS = 30_000
const EXTEND_EVERY = 200
/** Looks in an interval of the watchdog. It is fed at every second one. */
export const LOOKS = 4

export interface SystemdParts {
  readonly log: Logger
  readonly send?: Send
  readonly every?: typeof every
  readonly after?: typeof after
}

/**
 * The service manager that started this process. It is notified of readiness, problems, reloads and the end, and fed
 * while it goes on. All of it does nothing where no service manager asks for it.
 */
export class Systemd {
  readonly #notifier: Notifier | undefined
  readonly #watchdogMs: number | undefined
  readonly #every: typeof every
  #subject: Subject | undefined
  #stops: (() => void)[] = []
  #stopFirst: (() => void) | undefined
  #status = ''
  #isReady = false
  #reloads = 0
  #looks = 0
  #lookedAt = 0
  #isEnding = false
  #answers = true

  /** Takes what is meant for this process out of `env`, so that no program that it starts takes it for its own. */
  static from(env: NodeJS.ProcessEnv, { log, send, ...timers }: SystemdParts): Systemd {
    const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: micros, WATCHDOG_PID: pid } = env
    for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name]
    if (!socket) return new Systemd(undefined, undefined, timers)
    const watched = Number(micros) > 0 && (pid === undefined || Number(pid) === process.pid)
    const notifier = new Notifier(send ?? notifyProgram(socket, env.PATH), log, timers.after ?? after)
    return new Systemd(notifier, watched ? Number(micros) / 1000 : undefined, timers)
  }

  private constructor(notifier: Notifier | undefined, watchdogMs: number | undefined, timers: Partial<SystemdParts>) {
    this.#notifier = notifier
    this.#watchdogMs = watchdogMs
    this.#every = timers.every ?? every
  }

  /** Reports this from now on, in place of what it reported before. */
  follow(subject: Subject): void {
    if (!this.#notifier) return
    this.#subject = subject
    this.#look()
    if (this.#stops.length > 0) return
    this.#stops.push(this.#every(LOOK_MS, () => this.#look()))
    if (this.#watchdogMs !== undefined)
      this.#stops.push(this.#every(this.#watchdogMs / LOOKS, () => void this.#watch(this.#notifier!)))
  }

  /** Work that is a reload of the service. */
  async reload<T>(work: () => Promise<T>): Promise<T> {
    this.#reloads++
    if (this.#isReady && !this.#isEnding) {
      this.#isReady = false
      this.#notifier?.reloading()
    }
    try {
      return await work()
    } finally {
      this.#reloads--
      this.#look(true)
    }
  }

  /** The end has begun, and may take so long. */
  ending(timeoutMs: number, status: string): void {
    if (this.#isEnding) return
    this.#isEnding = true
    const micros = Math.round((timeoutMs + EXTEND_MS) * 1000)
    this.#notifier?.say({ STOPPING: '1', STATUS: oneLine(status), EXTEND_TIMEOUT_USEC: String(micros) })
  }

  /** Resolves when systemd knows everything, or after a moment. */
  async close(): Promise<void> {
    for (const stop of [...this.#stops, this.#stopFirst]) stop?.()
    this.#stops = []
    await this.#notifier?.close()
  }

  /** `soon`: what may last for a moment only is not worth a word yet. */
  #look(soon = false): void {
    if (!this.#notifier || !this.#subject || this.#isEnding || this.#reloads > 0) return
    const { ready, status } = this.#subject.state()
    if (status !== this.#status && (ready || !soon)) {
      this.#status = status
      this.#notifier.say({ STATUS: status })
    }
    if (this.#isReady) return
    if (ready) {
      this.#isReady = true
      this.#stopFirst?.()
      this.#stopFirst = undefined
      this.#notifier.ready()
      return
    }
    this.#stopFirst ??= this.#every(FIRST_LOOKS_MS, () => this.#look(true))
    if (this.#looks++ % EXTEND_EVERY === 0) this.#notifier.say({ EXTEND_TIMEOUT_USEC: String(EXTEND_MS * 1000) })
  }

  async #watch(notifier: Notifier): Promise<void> {
    const feeds = this.#lookedAt++ % (LOOKS / 2) === 0
    // One look at a time: one that never ends is the end of the feeding.
    if (!this.#answers) return
    this.#answers = false
    const goesOn = this.#isEnding || (await asked(this.#subject))
    this.#answers = true
    // One that got lost is made up for at the next look: the one after it would come when the interval is over.
    if (goesOn && (feeds || notifier.isBehind)) notifier.say({ WATCHDOG: '1' })
  }
}

async function asked(subject: Subject | undefined): Promise<boolean> {
  try {
    return (await subject?.goesOn?.()) ?? true
  } catch {
    return false
  }
}
