import type { Logger } from 'pino'
import { errorText } from '../../../core/errors.js'
import { systemClock } from '../../../lib/time.js'
import type { StoreHealth, TableName } from './store.js'

/** Caches are emptied if the changes of other processes were last read this long ago. Normally, each second. */
const STALE_MS = 2000

/** Empties the caches of a store, and records whether the store works. */
export class StoreMonitor {
  readonly #log: Logger | undefined
  readonly #place: Readonly<Record<string, string>>
  readonly #advice: string
  readonly #watches: { readonly tables: readonly TableName[]; readonly forget: () => void }[] = []
  /** Infinite if `current` is never called. */
  #currentAt = Number.POSITIVE_INFINITY
  #failedWrites = 0
  #unsavedSince: number | undefined
  #unreadableSince: number | undefined
  #lost: StoreHealth['lost']

  /** `place` identifies the store in the log. `advice` names what to check if a change fails. */
  constructor(log: Logger | undefined, place: Readonly<Record<string, string>>, advice: string) {
    this.#log = log
    this.#place = place
    this.#advice = advice
  }

  watch(tables: readonly TableName[], forget: () => void): () => void {
    this.#watches.push({ tables, forget })
    return () => {
      if (systemClock.now() - this.#currentAt > STALE_MS) this.changed(undefined)
    }
  }

  /** Records that the caches contain all changes of other processes until then, on the monotonic clock. */
  current(at: number): void {
    this.#currentAt = at
  }

  /** Empties the caches of these tables, or all caches if `changed` is undefined. */
  changed(changed: ReadonlySet<string> | undefined): void {
    if (!changed) this.#currentAt = Math.max(this.#currentAt, systemClock.now())
    for (const { tables, forget } of this.#watches) if (!changed || tables.some(table => changed.has(table))) forget()
  }

  saved(): void {
    if (this.#unsavedSince !== undefined) this.#log?.info(this.#place, 'changes can be saved in the store again')
    this.#unsavedSince = undefined
  }

  failed(error: unknown, code = 'SLUICE_STORE_WRITE_FAILED'): void {
    this.#failedWrites++
    const fields = { code, ...this.#place, error: errorText(error) }
    if (this.#unsavedSince === undefined)
      this.#log?.error(fields, `a change could not be saved in the store. ${this.#advice}`)
    this.#unsavedSince ??= systemClock.wall()
  }

  readable(isReadable: boolean): void {
    this.#unreadableSince = isReadable ? undefined : (this.#unreadableSince ?? systemClock.wall())
  }

  /** Records that PostgreSQL has lost changes that it confirmed after `from` (milliseconds). */
  lost(from: number): void {
    this.#lost = { from, until: systemClock.wall() }
    const times = { from: isoTime(from), until: isoTime(this.#lost.until) }
    const text = 'PostgreSQL has lost changes that it had confirmed, as after a failover or a restore'
    this.#log?.error({ code: 'SLUICE_STORE_CHANGES_LOST', ...this.#place, ...times }, text)
  }

  health(): StoreHealth {
    const [unsaved, unreadable] = [this.#unsavedSince, this.#unreadableSince]
    const [failedSince] = [unsaved, unreadable].filter(time => time !== undefined).sort((a, b) => a - b)
    const state = { writable: unsaved === undefined, readable: unreadable === undefined }
    return { ...state, failedSince, failedWrites: this.#failedWrites, lost: this.#lost }
  }
}

function isoTime(wall: number): string {
  return new Date(wall).toISOString()
}
