import type { Logger } from 'pino'
import { errorText } from '../../../core/errors.js'
import type { StoreHealth, Table } from './store.js'

/** Empties the caches of a store, and knows whether it can be written. */
export class StoreMonitor {
  readonly #log: Logger | undefined
  readonly #place: Readonly<Record<string, string>>
  readonly #advice: string
  readonly #watches: { readonly tables: readonly Table[]; readonly forget: () => void }[] = []
  #failedWrites = 0
  #writable = true

  /** `place`: the fields of its log. `advice`: what to check if a change fails. */
  constructor(log: Logger | undefined, place: Readonly<Record<string, string>>, advice: string) {
    this.#log = log
    this.#place = place
    this.#advice = advice
  }

  watch(tables: readonly Table[], forget: () => void): void {
    this.#watches.push({ tables, forget })
  }

  /** Empties the caches of these tables; undefined: of all. */
  changed(changed: ReadonlySet<string> | undefined): void {
    for (const { tables, forget } of this.#watches) if (!changed || tables.some(table => changed.has(table))) forget()
  }

  saved(): void {
    if (!this.#writable) this.#log?.info(this.#place, 'the store can be written again; saving changes again')
    this.#writable = true
  }

  failed(error: unknown, code = 'SLUICE_STORE_WRITE_FAILED'): void {
    this.#failedWrites++
    const fields = { code, ...this.#place, error: errorText(error) }
    if (this.#writable) this.#log?.error(fields, `a change could not be saved in the store. ${this.#advice}`)
    this.#writable = false
  }

  health(): StoreHealth {
    return { writable: this.#writable, failedWrites: this.#failedWrites }
  }
}
