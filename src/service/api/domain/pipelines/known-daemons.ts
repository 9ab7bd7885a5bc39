/** A daemon without a report for this long counts as silent. */
export const SILENT_MS = 5 * 60_000
/**
 * A daemon counts as confirmed if its last report is at least this much later than its first report. A client that
 * invents ids would therefore have to keep reporting under each id.
 */
const CONFIRMED_MS = 30_000

interface Known {
  readonly registeredMs: number
  reportedMs: number
}

/** Daemons by key. */
export type ReadDaemons = ReadonlyMap<string, { readonly registered_at: string; readonly reported_at: string }>

/** The daemons of one account, kept in memory, so a report does not have to read the store. */
export class KnownDaemons {
  readonly #daemons = new Map<string, Known>()
  /** When the daemons were last read, on the monotonic clock, and that read. */
  read: { readonly ms: number; readonly done: Promise<void> }

  constructor(daemons: ReadDaemons, readMs: number) {
    this.replace(daemons)
    this.read = { ms: readMs, done: Promise.resolve() }
  }

  replace(daemons: ReadDaemons): void {
    this.#daemons.clear()
    for (const [key, { registered_at, reported_at }] of daemons)
      this.#daemons.set(key, { registeredMs: Date.parse(registered_at), reportedMs: Date.parse(reported_at) })
  }

  /** Removes the daemons whose keys start with `prefix`. */
  forget(prefix: string): void {
    for (const key of this.#daemons.keys()) if (key.startsWith(prefix)) this.#daemons.delete(key)
  }

  get size(): number {
    return this.#daemons.size
  }

  has(key: string): boolean {
    return this.#daemons.has(key)
  }

  /** Records a report. Returns the time of the daemon's first report, in milliseconds since 1970. */
  reported(key: string, nowMs: number): number {
    const known = this.#daemons.get(key)
    if (known) known.reportedMs = nowMs
    else this.#daemons.set(key, { registeredMs: nowMs, reportedMs: nowMs })
    return known?.registeredMs ?? nowMs
  }

  /** Removes and returns a daemon that a new daemon may replace; undefined if all are confirmed and not silent. */
  evict(nowMs: number): string | undefined {
    const isConfirmed = ({ registeredMs, reportedMs }: Known) => reportedMs - registeredMs >= CONFIRMED_MS
    const all = [...this.#daemons]
    const candidates = [
      all.filter(([, known]) => !isConfirmed(known)),
      all.filter(([, { reportedMs }]) => reportedMs + SILENT_MS < nowMs),
    ].find(some => some.length > 0)
    if (!candidates) return undefined
    const [key] = candidates.reduce((a, b) => (b[1].reportedMs < a[1].reportedMs ? b : a))
    this.#daemons.delete(key)
    return key
  }
}
