import type { SourceContext } from '../../core/component.js'
import { type Entry, takenAt } from './fields.js'

/**
 * How far the reading is behind. journalctl does not say when it has come to the end, so nothing distinguishes an entry that is
 * long in coming from one that was never written: what is known is how old the last one was.
 */
export class Lag {
  /** Whether there is more to read, or nobody knows. */
  moreWaits: () => boolean = () => true
  readonly #context: SourceContext
  /** When journald took the entry that was read last. */
  #takenAt: number | undefined
  #whenReadMs = 0

  constructor(context: SourceContext) {
    this.#context = context
    context.metrics.gauges(
      'sluice_journal_lag_seconds',
      'How old the entry that was read last was when it was read. While more wait to be read, or journalctl does not run, how old it is now.',
      () => this.#read(),
    )
  }

  /** This entry was read. */
  at(entry: Entry): void {
    this.#takenAt = takenAt(entry) ?? this.#takenAt
    this.#whenReadMs = this.#ageMs
  }

  get #ageMs(): number {
    const now = this.#context.clock.wall()
    // Clocks are set, and entries may come from other machines.
    return Math.max(0, now - (this.#takenAt ?? now))
  }

  #read(): { labels: Record<string, string>; value: number }[] {
    // Nothing is known before the first entry.
    if (this.#takenAt === undefined) return []
    return [{ labels: {}, value: (this.moreWaits() ? this.#ageMs : this.#whenReadMs) / 1000 }]
  }
}
