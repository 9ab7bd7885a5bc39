import { type Dirent, existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Logger } from 'pino'
import type { DiskAllowance } from '../engine/disk-allowance.js'
import type { Metrics } from '../engine/metrics.js'
import type { Clock } from '../lib/time.js'
import { formatSize } from '../lib/units.js'

/** An account that takes this share of its allowance counts as full. */
const FULL = 0.9
const LOG_EVERY_MS = 60_000
/** What the folder of a pipeline has that grows with its events, see engine/disk-buffer and engine/dead-letter. */
const GROWING = ['state/buffer', 'state/dead-letter']

/** What the pipelines of one account take on the disk: their buffers and dead letters, of pipelines that do not run too. */
class AccountDisk implements DiskAllowance {
  readonly max: number
  readonly #paths = new Map<string, { readonly bytes: () => number; readonly release?: (() => void) | undefined }>()
  readonly #tellFull: (used: number) => void

  constructor(max: number, tellFull: (used: number) => void) {
    this.max = max
    this.#tellFull = tellFull
  }

  get used(): number {
    let used = 0
    for (const { bytes } of this.#paths.values()) used += bytes()
    return used
  }

  hasRoom(bytes: number): boolean {
    const { used } = this
    if (used + bytes <= this.max) return true
    for (const { release } of this.#paths.values()) release?.()
    this.#tellFull(used)
    return false
  }

  count(path: string, bytes: () => number, release?: () => void): void {
    this.#paths.set(path, { bytes, release })
  }

  /** Whether a buffer that runs counts itself. */
  isLive(path: string): boolean {
    return this.#paths.get(path)?.release !== undefined
  }

  /** A rename or the removal of what nobody needs leaves paths that are gone. */
  forgetMissing(folder: string): void {
    for (const path of this.#paths.keys())
      if (path.startsWith(folder + sep) && !this.isLive(path) && !existsSync(path)) this.#paths.delete(path)
  }

  forget(folder: string): void {
    for (const path of this.#paths.keys()) if (path.startsWith(folder + sep)) this.#paths.delete(path)
  }
}

interface Options {
  /** For each account. */
  readonly max: number
  readonly log: Logger
  readonly clock: Clock
  readonly metrics: Metrics
}

/** The allowances of all accounts. */
export class AccountDisks {
  readonly #options: Options
  readonly #accounts = new Map<string, AccountDisk>()
  readonly #loggedAt = new Map<string, number>()

  constructor(options: Options) {
    this.#options = options
    const { metrics, max } = options
    const all = () => [...this.#accounts.values()].map(({ used }) => used)
    metrics.daemonGauge(
      'sluice_ingest_disk_bytes',
      'Bytes that buffers and dead letters of published pipelines take on the disk.',
      () => all().reduce((sum, used) => sum + used, 0),
    )
    metrics.daemonGauge(
      'sluice_ingest_full_accounts',
      'Accounts whose buffers and dead letters take more than 90 % of max_disk_per_account.',
      () => all().filter(used => used >= FULL * max).length,
    )
  }

  of(account: string): AccountDisk {
    let disk = this.#accounts.get(account)
    if (!disk) {
      disk = new AccountDisk(this.#options.max, used => this.#tellFull(account, used))
      this.#accounts.set(account, disk)
    }
    return disk
  }

  /** Counts what the folder of a pipeline holds, as far as it is not counted by what runs. */
  async measure(account: string, folder: string): Promise<void> {
    const disk = this.of(account)
    disk.forgetMissing(folder)
    for (const name of GROWING) {
      for (const entry of await entriesOf(join(folder, name))) {
        const path = join(folder, name, entry.name)
        const bytes = await sizeOf(path, entry)
        if (!disk.isLive(path)) disk.count(path, () => bytes)
      }
    }
  }

  /** The folder of a pipeline was removed. */
  forget(folder: string): void {
    for (const disk of this.#accounts.values()) disk.forget(folder)
  }

  #tellFull(account: string, used: number): void {
    const { clock, log, max } = this.#options
    const now = clock.now()
    if (now - (this.#loggedAt.get(account) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return
    this.#loggedAt.set(account, now)
    log.warn(
      { code: 'SLUICE_ACCOUNT_DISK_FULL', account, used: formatSize(used), max: formatSize(max) },
      'the buffers and dead letters of an account take all the disk space that it may use: its pipelines wait, and senders are answered 503',
    )
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
