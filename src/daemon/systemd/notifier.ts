import { spawn } from 'node:child_process'
import type { Logger } from 'pino'
import { errorText } from '../../core/errors.js'
import { helperProcess } from '../../lib/files/helper-process.js'
import { after, monotonicMicros } from '../../lib/time.js'

/** The fields of a notification, by name, as in `READY=1`, `STATUS=...`. */
export type Notice = Readonly<Record<string, string>>

/** Notifies systemd; rejects on failure. */
export type Send = (notice: Notice) => Promise<void>

const FIRST_RETRY_MS = 1000
/** A small part of the watchdog interval, since a retry must not delay the watchdog's ping. */
const LAST_RETRY_MS = 5000
/** Time limit of one notification, since systemd-notify waits until systemd has processed the notification. */
const SEND_MS = 10_000
/** Time limit for the last notifications, before the process ends. */
const LEAVE_MS = 2000
/** Fields that change the state of the unit. Each change is sent in a message of its own. */
const STATES = ['READY', 'RELOADING', 'STOPPING']

const hasState = (notice: Notice) => STATES.some(name => name in notice)

/**
 * Sends notifications to systemd, one at a time. Invariants:
 * - State changes are sent in order, each in its own message. A reload replaces unsent changes of the previous reload.
 *   In all other fields, a newer value may replace a value that was not sent yet.
 * - Notifications that failed while systemd was unreachable are sent again, the newest last.
 * - A watchdog ping is never sent late. It is part of the next message or is not sent.
 */
export class Notifier {
  readonly #send: Send
  readonly #log: Logger
  readonly #after: typeof after
  #queue: Notice[] = []
  #sending: Promise<void> | undefined
  #failures = 0
  #cancelRetry: (() => void) | undefined
  /** The last failure since the last success. It is logged once. */
  #failure = ''

  constructor(send: Send, log: Logger, timers = after) {
    this.#send = send
    this.#log = log
    this.#after = timers
  }

  say(notice: Notice): void {
    const queue = this.#queue
    const last = queue.at(-1)
    if (last && !(hasState(last) && hasState(notice) && !('READY' in last && 'READY' in notice))) {
      queue[queue.length - 1] = { ...last, ...notice }
    } else if ('RELOADING' in notice && queue.length > 1 && 'RELOADING' in queue.at(-2)!) {
      // If two reloads are still unsent, reporting the second is enough.
      queue.splice(-2, 2, notice)
    } else queue.push(notice)
    if (!this.#cancelRetry) this.#sending ??= this.#sendAll()
  }

  get isBehind(): boolean {
    return this.#failures > 0
  }

  ready(): void {
    this.say({ READY: '1' })
  }

  reloading(): void {
    this.say({ RELOADING: '1', MONOTONIC_USEC: monotonicMicros() })
  }

  /** Resolves when everything is sent, or after LEAVE_MS. */
  async close(): Promise<void> {
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    if (this.#queue.length > 0) this.#sending ??= this.#sendAll()
    let cancel = () => {}
    const enough = new Promise<void>(resolve => {
      cancel = this.#after(LEAVE_MS, resolve)
    })
    await Promise.race([this.#sending, enough])
    cancel()
  }

  async #sendAll(): Promise<void> {
    for (let notice = this.#queue.shift(); notice; notice = this.#queue.shift()) {
      try {
        await this.#send(notice)
        this.#failures = 0
        this.#failure = ''
      } catch (error) {
        this.#failed(notice, error)
        break
      }
    }
    this.#sending = undefined
  }

  #failed(notice: Notice, error: unknown): void {
    if (this.#failure !== errorText(error)) this.#log.warn({ error: errorText(error) }, 'cannot notify systemd')
    this.#failure = errorText(error)
    const { WATCHDOG: _, ...left } = notice
    const later = this.#queue
    this.#queue = Object.keys(left).length > 0 ? [left] : []
    const waitMs = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++)
    this.#cancelRetry = this.#after(waitMs, () => {
      this.#cancelRetry = undefined
      if (this.#queue.length > 0) this.#sending ??= this.#sendAll()
    })
    for (const next of later) this.say(next)
  }
}

/**
 * Sends with the program systemd-notify, since Node.js cannot send to a datagram socket. The program exits only when
 * systemd has processed the message, so that systemd can still identify the sender. The unit needs NotifyAccess=all.
 */
export function notifyProgram(socket: string, path = process.env.PATH, helper = helperProcess): Send {
  const env = { NOTIFY_SOCKET: socket, ...(path === undefined ? {} : { PATH: path }) }
  const variables = Object.entries(env).map(([name, text]) => `${name}=${text}`)
  return async notice => {
    const words = ['systemd-notify', '--', ...Object.entries(notice).map(([name, text]) => `${name}=${text}`)]
    // While files of a remote file system are open, starting a new process can hang.
    const by = ['timeout', String(SEND_MS / 1000), 'env', '-i', ...variables]
    const code = helper.isRunning ? await helper.run([...by, ...words]) : undefined
    if (code === undefined) await spawned(words, env)
    else if (code !== 0) throw new Error(`systemd-notify: exit code ${code}`)
  }
}

function spawned([program, ...args]: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program!, args, { env, stdio: 'ignore', timeout: SEND_MS })
    child.on('error', error => reject(new Error(`${program} cannot be run: ${error.message}`, { cause: error })))
    child.on('exit', (code, signal) => {
      if (code === 0) resolve()
      else reject(new Error(`${program}: ${signal ?? `exit code ${code}`}`))
    })
  })
}
