import { statfs } from 'node:fs'
import { resolve } from 'node:path'
import { after, type Clock, every, systemClock, within } from '../../time.js'
import { inTurn } from '../../turns.js'
import { HelperProcess, helperProcess } from '../helper-process.js'
import { machineText } from '../machine-text.js'
import { Mounts } from './mounts.js'

/** Time limit for the response of a file system. */
const PATIENCE_MS = 3000
/** How long a file system counts as responding after its last response. */
const FRESH_MS = 1000
/** How long a call may wait for its turn while earlier calls run. */
const TURN_MS = 10_000
/** If a call does not return: how long its file system counts as silent, even if it responds again. */
const STUCK_MS = 60_000
/** How long the mount list and resolved links are cached. */
const MOUNTS_MS = 1000
const PATHS_MS = 60_000
/** Maximum concurrent remote calls. Local files, names and compression share the four threads of Node.js. */
const MOST_CALLS = 2

interface State {
  probe?: Promise<void> | undefined
  isSilent: boolean
  /** Synchronous calls that timed out and have not returned. */
  stuck: number
  answeredAt: number
}

export interface FileSystemsOptions {
  readonly clock?: Clock
  readonly after?: typeof after
  readonly readMounts?: () => string
  /** Resolves when the file system mounted at `mount` has responded, even with an error. */
  readonly probe?: (mount: string) => Promise<void>
}

export class SilentFileSystem extends Error {
  readonly code = 'SLUICE_FILE_SYSTEM_SILENT'
  readonly mount: string
  constructor(mount: string, why?: string) {
    super(why === undefined ? `the file system at ${mount} does not answer` : `${mount} has to wait: ${why}`)
    this.mount = mount
  }
}

/**
 * Tracks which remote file systems respond. Another process probes a file system before it is used, because a call that
 * never returns would block a thread of this process, or even the main thread. Local file systems are not probed.
 */
export class FileSystems {
  readonly #clock: Clock
  readonly #after: typeof after
  readonly #readMounts: () => string
  readonly #probe: (mount: string) => Promise<void>
  readonly #states = new Map<string, State>()
  /** Mounts with a call in progress. */
  readonly #busy = new Set<string>()
  readonly #waiting: { readonly mount: string; readonly begin: () => void }[] = []
  #mounts = new Mounts('')
  #text = ''
  #readAt = Number.NEGATIVE_INFINITY
  #followedAt = Number.NEGATIVE_INFINITY

  constructor(options: FileSystemsOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#after = options.after ?? after
    this.#readMounts = options.readMounts ?? readMounts
    const own = new MountProbe(helperProcess)
    this.#probe = options.probe ?? (mount => own.ask(mount))
  }

  /** Returns the remote mount to which `path` leads; undefined if all of the path is local. */
  mountOf(path: string): string | undefined {
    const now = this.#clock.now()
    if (now - this.#readAt >= MOUNTS_MS) {
      this.#readAt = now
      const text = this.#readMounts()
      if (text !== this.#text) this.#mounts = new Mounts(text)
      this.#text = text
    }
    if (now - this.#followedAt >= PATHS_MS) {
      this.#followedAt = now
      this.#mounts.forgetPaths()
    }
    return this.#mounts.remoteOn(path.startsWith('/') ? path : resolve(path))
  }

  /** Returns the mount of `path` if its last probe got no answer; otherwise undefined. Starts no probe. */
  silentAt(path: string): string | undefined {
    const mount = this.mountOf(path)
    return mount !== undefined && this.isSilent(mount) ? mount : undefined
  }

  isSilent(mount: string): boolean {
    return this.#states.get(mount)?.isSilent === true
  }

  /** Reports that a call to the file system mounted at `mount` timed out. `returned` resolves if the call returns. */
  silence(mount: string, returned: Promise<void>): void {
    const state = this.#stateOf(mount)
    state.isSilent = true
    state.stuck++
    void returned.then(() => state.stuck--)
    // The timer keeps the process alive. But the process cannot exit anyway until the call returns (see endProcess).
    const isOver = within(STUCK_MS, returned, this.#after)
    this.#expect(state, Promise.all([state.probe ?? this.#probe(mount), isOver]))
  }

  /** Resolves when the file system mounted at `mount`, which was silent, may respond again. */
  async answered(mount: string): Promise<void> {
    const probe = this.#states.get(mount)?.probe
    await (probe ?? aMoment())
  }

  #expect(state: State, answer: Promise<unknown>): void {
    const over = () => {
      if (state.probe !== probe) return
      state.probe = undefined
      state.isSilent = false
      state.answeredAt = this.#clock.now()
    }
    // A probe that cannot be made says nothing about the file system, so it must not count as silent from then on.
    const probe = answer.then(over, over)
    state.probe = probe
  }

  /** Whether the file system at `mount` responds now, or responded less than FRESH_MS ago. */
  async answers(mount: string): Promise<boolean> {
    const state = this.#stateOf(mount)
    if (!state.probe) {
      if (this.#clock.now() - state.answeredAt < FRESH_MS) return true
      this.#expect(state, this.#probe(mount))
    } else if (state.isSilent) return false
    const { probe } = state
    await within(PATIENCE_MS, probe!, this.#after)
    if (state.probe === probe) state.isSilent = true
    return !state.isSilent
  }

  /**
   * Makes an asynchronous call about `path`, one at a time per remote file system. Throws SilentFileSystem if the file
   * system does not respond.
   */
  async run<T>(path: string, call: () => Promise<T>): Promise<T> {
    const mount = this.mountOf(path)
    if (mount === undefined) return await call()
    await this.#turn(mount)
    try {
      if (!(await this.answers(mount))) throw new SilentFileSystem(mount)
      return await call()
    } finally {
      this.#busy.delete(mount)
      this.#beginNext()
    }
  }

  /** Like `run`, but if the file system does not respond, makes the call when it responds again. */
  async runWhenAnswered<T>(path: string, call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await this.run(path, call)
      } catch (error) {
        if (!(error instanceof SilentFileSystem)) throw error
        await this.answered(error.mount)
      }
    }
  }

  /** Like `run`, but also rejects if the file system stops responding during the call. */
  async runInTime<T>(path: string, call: () => Promise<T>): Promise<T> {
    const mount = this.mountOf(path)
    if (mount === undefined) return await call()
    const result = this.run(path, call)
    const isOver = Promise.allSettled([result])
    while (!(await within(FRESH_MS, isOver, this.#after)))
      if (!(await this.answers(mount))) throw new SilentFileSystem(mount)
    return await result
  }

  /** Resolves with the mount of a used file system that does not respond now; undefined if all of them respond. */
  async anySilent(): Promise<string | undefined> {
    for (const mount of this.#states.keys()) if (!(await this.answers(mount))) return mount
    return undefined
  }

  /** Resolves with a mount on which a call hangs, or undefined. On exit, Node.js would wait for that call. */
  async stuck(): Promise<string | undefined> {
    for (const [mount, { stuck }] of this.#states) if (stuck > 0) return mount
    for (const mount of this.#busy) if (!(await this.answers(mount))) return mount
    return undefined
  }

  #turn(mount: string): Promise<void> {
    return new Promise((begin, reject) => {
      const turn = {
        mount,
        begin: () => {
          cancel()
          begin()
        },
      }
      const cancel = this.#after(TURN_MS, () => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1)
        reject(new SilentFileSystem(mount, 'calls to it or to other file systems do not return'))
      })
      this.#waiting.push(turn)
      this.#beginNext()
    })
  }

  #beginNext(): void {
    for (let i = 0; i < this.#waiting.length && this.#busy.size < MOST_CALLS; ) {
      const { mount, begin } = this.#waiting[i]!
      if (this.#busy.has(mount)) {
        i++
        continue
      }
      this.#waiting.splice(i, 1)
      this.#busy.add(mount)
      begin()
    }
  }

  #stateOf(mount: string): State {
    let state = this.#states.get(mount)
    if (!state) {
      state = { isSilent: false, stuck: 0, answeredAt: Number.NEGATIVE_INFINITY }
      this.#states.set(mount, state)
    }
    return state
  }
}

/** Waits for a moment without keeping the process alive. */
function aMoment(): Promise<void> {
  return new Promise(resolve => {
    const stop = every(FRESH_MS, () => {
      stop()
      resolve()
    })
  })
}

function readMounts(): string {
  return machineText('/proc/self/mountinfo')
}

/** If the shell exits with this code or a higher one, a signal ended the program. */
const ENDED_BY_SIGNAL = 128

/** Starts a program for each probe of a file system, so that a stuck probe blocks nothing else. */
export class MountProbe {
  readonly #helper: HelperProcess

  constructor(helper = new HelperProcess()) {
    this.#helper = helper
  }

  async ask(mount: string): Promise<void> {
    if (mount.includes('\n')) return await byThread(mount)
    this.#helper.start()
    for (;;) {
      // Asks for the size of the file system, because no network file system answers this from a cache.
      const code = await this.#helper.run(['stat', '-f', '--', mount])
      if (code === undefined) return await byThread(mount)
      if (code < ENDED_BY_SIGNAL) return
    }
  }
}

/** Probes in a thread of this process when no helper process can be used. Makes one probe at a time. */
function byThread(mount: string): Promise<void> {
  return inTurn('probe of a file system', () => new Promise<void>(done => statfs(mount, () => done())))
}

export const fileSystems = new FileSystems()
