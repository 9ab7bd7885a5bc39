import { type Dirent, existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Logger } from 'pino'
import type { DiskAllowance } from '../../../engine/flow/disk-allowance.js'
import type { Metrics } from '../../../engine/run/measure/metrics.js'
import type { Clock } from '../../../lib/time.js'
import { formatSize } from '../../../lib/units.js'
import type { Taken } from '../process/messages.js'
import { KEY_FILES } from '../worker/known-keys.js'

/** An account that takes this share of its allowance counts as full. */
const FULL = 0.9
const LOG_EVERY_MS = 60_000
/** Folders of a pipeline that grow with its events, see disk-buffer, dead-letter and state of the engine. */
const GROWING = ['state/buffer', 'state/dead-letter', 'state/throttle']
/** What events always leave to saved revisions, so that a pipeline whose events fill the disk can be corrected. */
const RESERVED = 1 / 16
const MOST_RESERVED = 16 * 1024 * 1024

interface DiskOptions {
  readonly account: string
  /** Bytes that it may take. */
  readonly max: number
  /** Bytes that its saved revisions take in the store of the service. */
  readonly revisions: () => number
  readonly log: Logger
  readonly clock: Clock
}

/**
 * What the pipelines of one account take on the disk, also those that do not run: buffers, dead letters and idempotency
 * keys in their folders, and saved revisions in the store of the service. The process of the account counts what its
 * pipelines have, and decides whether there is room; the service counts what rests. They tell each other (`own`).
 */
export class AccountDisk implements DiskAllowance {
  readonly max: number
  readonly #options: DiskOptions
  readonly #paths = new Map<string, { readonly bytes: () => number; readonly release?: (() => void) | undefined }>()
  /** Paths that the other process counts. */
  readonly #others = new Set<string>()
  readonly #reserved: number
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(options: DiskOptions) {
    this.max = options.max
    this.#options = options
    this.#reserved = Math.min(MOST_RESERVED, options.max * RESERVED)
  }

  /** Bytes of files. */
  get files(): number {
    let used = 0
    for (const { bytes } of this.#paths.values()) used += bytes()
    return used
  }

  get used(): number {
    return this.files + this.#options.revisions()
  }

  hasRoom(bytes: number): boolean {
    const used = this.files + Math.max(this.#reserved, this.#options.revisions())
    if (used + bytes <= this.max) return true
    for (const { release } of this.#paths.values()) release?.()
    this.#tellFull()
    return false
  }

  /** Whether revisions may take `bytes` more. */
  hasRoomForRevisions(bytes: number): boolean {
    return this.#options.revisions() + bytes <= this.#reserved || this.used + bytes <= this.max
  }

  count(path: string, bytes: () => number, release?: () => void): void {
    this.#paths.set(path, { bytes, release })
    this.#others.delete(path)
  }

  /** Counts what the folder of a pipeline holds, as far as it is not counted by what runs. */
  async measure(folder: string): Promise<void> {
    const add = (path: string, bytes: number) => {
      if (!this.#isLive(path)) this.count(path, () => bytes)
    }
    for (const name of KEY_FILES) {
      const path = join(folder, name)
      const { size = 0 } = (await stat(path).catch(() => undefined)) ?? {}
      if (size > 0) add(path, size)
    }
    for (const name of GROWING) {
      for (const entry of await entriesOf(join(folder, name))) {
        const path = join(folder, name, entry.name)
        add(path, await sizeOf(path, entry))
      }
    }
    // Last, so that a renamed file counts all the time.
    for (const path of this.#paths.keys())
      if (path.startsWith(folder + sep) && !this.#isLive(path) && !existsSync(path)) this.#remove(path)
  }

  forget(folder: string): void {
    for (const path of this.#paths.keys()) if (path.startsWith(folder + sep)) this.#remove(path)
  }

  /** In the service: from now on the process of the account counts this folder. */
  leaveToProcess(folder: string): void {
    for (const path of this.#paths.keys())
      if (path.startsWith(folder + sep) && !this.#others.has(path)) this.#remove(path)
  }

  /** In the service: what the process of the account counts. It counts that until it says otherwise. */
  setLive(taken: readonly Taken[]): void {
    this.#setOthers(taken, () => true, NOTHING)
  }

  /** In the process of the account: what the service counts, as far as it is not counted here. */
  setResting(taken: readonly Taken[]): void {
    this.#setOthers(taken, path => !this.#paths.has(path))
  }

  /** What is counted in this process. */
  own(): Taken[] {
    return [...this.#paths].filter(([path]) => !this.#others.has(path)).map(([path, { bytes }]) => [path, bytes()])
  }

  #setOthers(taken: readonly Taken[], takes: (path: string) => boolean, release?: () => void): void {
    for (const path of [...this.#others]) this.#remove(path)
    for (const [path, bytes] of taken) {
      if (!takes(path)) continue
      this.count(path, () => bytes, release)
      this.#others.add(path)
    }
  }

  #remove(path: string): void {
    this.#paths.delete(path)
    this.#others.delete(path)
  }

  /** Whether something that runs counts it. */
  #isLive(path: string): boolean {
    return this.#paths.get(path)?.release !== undefined
  }

  #tellFull(): void {
    const { account, clock, log } = this.#options
    const now = clock.now()
    if (now - this.#loggedAt < LOG_EVERY_MS) return
    this.#loggedAt = now
    log.warn(
      { code: 'SLUICE_ACCOUNT_DISK_FULL', account, used: formatSize(this.used), max: formatSize(this.max) },
      'the pipelines of an account use all of its disk space (buffers, dead-letter queues, idempotency keys, saved revisions): they wait, and ingest answers 503. Delete pipelines that are not needed, or raise max_disk_per_account',
    )
  }
}

/** What runs in another process is released there. */
const NOTHING = () => {}

interface Options {
  /** For each account. */
  readonly max: number
  readonly log: Logger
  readonly clock: Clock
  readonly metrics: Metrics
  /** Bytes that the saved revisions of an account take in the store. */
  readonly revisionBytes: (account: string) => number
}

/** The allowances of all accounts. */
export class AccountDisks {
  readonly #options: Options
  readonly #accounts = new Map<string, AccountDisk>()

  constructor(options: Options) {
    this.#options = options
    const { metrics, max } = options
    const all = () => [...this.#accounts.values()]
    metrics.daemonGauge(
      'sluice_ingest_disk_bytes',
      'Disk space that buffers, dead-letter queues and idempotency keys of published pipelines use.',
      () => all().reduce((sum, { files }) => sum + files, 0),
    )
    metrics.daemonGauge(
      'sluice_ingest_full_accounts',
      'Accounts whose pipelines take more than 90 % of max_disk_per_account.',
      () => all().filter(({ used }) => used >= FULL * max).length,
    )
  }

  of(account: string): AccountDisk {
    let disk = this.#accounts.get(account)
    if (!disk) {
      const { max, revisionBytes, log, clock } = this.#options
      disk = new AccountDisk({ account, max, revisions: () => revisionBytes(account), log, clock })
      this.#accounts.set(account, disk)
    }
    return disk
  }

  /** The folder of a pipeline was removed. */
  forget(folder: string): void {
    for (const disk of this.#accounts.values()) disk.forget(folder)
  }
}

/** Nothing for a folder that cannot be read: the pipeline reports that itself when it uses it. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  return await readdir(folder, { withFileTypes: true }).catch(() => [])
}

/** Files may disappear meanwhile. */
async function sizeOf(path: string, entry: Dirent): Promise<number> {
  if (!entry.isDirectory()) return (await stat(path).catch(() => undefined))?.size ?? 0
  let bytes = 0
  for (const inner of await entriesOf(path)) bytes += await sizeOf(join(path, inner.name), inner)
  return bytes
}
