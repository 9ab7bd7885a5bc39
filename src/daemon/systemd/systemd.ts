import type { Logger } from 'pino'
import { after, every } from '../../lib/time.js'
import { Notifier, notifyProgram, type Send } from './notifier.js'
import { CHECKS, statusLine, type WatchedService } from './service-state.js'

const CHECK_MS = 1000
/** Interval of checks during startup. It is short, because other units wait until the startup has ended. */
const FIRST_CHECKS_MS = 50
/** During startup, the time limit for the startup grows by this many milliseconds every EXTEND_EVERY checks. */
const EXTEND_MS = 30_000
const EXTEND_EVERY = 200

export interface SystemdParts {
  readonly log: Logger
  readonly send?: Send
  readonly every?: typeof every
  readonly after?: typeof after
}

/**
 * Notifies the service manager of readiness, problems, reloads and the end of this process. Pings the watchdog while
 * the process works. Does nothing if the service manager did not ask for notifications.
 */
export class Systemd {
  readonly #notifier: Notifier | undefined
  readonly #watchdogMs: number | undefined
  readonly #every: typeof every
  #subject: WatchedService | undefined
  #stops: (() => void)[] = []
  #stopFirst: (() => void) | undefined
  #status = ''
  #isReady = false
  #reloads = 0
  #looks = 0
  #checks = 0
  #isEnding = false
  #answers = true

  /** Removes from `env` the variables meant for this process. Otherwise child processes would use them, too. */
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

  /** Reports this subject from now on, in place of the previous one. */
  follow(subject: WatchedService): void {
    if (!this.#notifier) return
    this.#subject = subject
    this.#check()
    if (this.#stops.length > 0) return
    this.#stops.push(this.#every(CHECK_MS, () => this.#check()))
    if (this.#watchdogMs !== undefined)
      this.#stops.push(this.#every(this.#watchdogMs / CHECKS, () => void this.#watch(this.#notifier!)))
  }

  /** Runs `work` as a reload of the service. */
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
      this.#check(true)
    }
  }

  /** Shutdown has begun and may take up to `timeoutMs`. */
  ending(timeoutMs: number, status: string): void {
    if (this.#isEnding) return
    this.#isEnding = true
    const micros = Math.round((timeoutMs + EXTEND_MS) * 1000)
    this.#notifier?.say({ STOPPING: '1', STATUS: statusLine(status), EXTEND_TIMEOUT_USEC: String(micros) })
  }

  /** Resolves when systemd has been notified of everything, or after a moment. */
  async close(): Promise<void> {
    for (const stop of [...this.#stops, this.#stopFirst]) stop?.()
    this.#stops = []
    await this.#notifier?.close()
  }

  /** `soon`: ignores an unready state that may last only a moment. */
  #check(soon = false): void {
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
    this.#stopFirst ??= this.#every(FIRST_CHECKS_MS, () => this.#check(true))
    if (this.#looks++ % EXTEND_EVERY === 0) this.#notifier.say({ EXTEND_TIMEOUT_USEC: String(EXTEND_MS * 1000) })
  }

  async #watch(notifier: Notifier): Promise<void> {
    const feeds = this.#checks++ % (CHECKS / 2) === 0
    // Only one check runs at a time. If a check never ends, the watchdog gets no more pings.
    if (!this.#answers) return
    this.#answers = false
    const goesOn = this.#isEnding || (await asked(this.#subject))
    this.#answers = true
    // If a ping failed, the next check sends a ping again, because the check after that would be too late.
    if (goesOn && (feeds || notifier.isBehind)) notifier.say({ WATCHDOG: '1' })
  }
}

async function asked(subject: WatchedService | undefined): Promise<boolean> {
  try {
    return (await subject?.goesOn?.()) ?? true
  } catch {
    return false
  }
}
