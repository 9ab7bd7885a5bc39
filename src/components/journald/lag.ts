import type { SourceContext } from '../../core/component.js'
import { type Entry, takenAt } from './fields.js'

/**
 * Measures how far reading lags behind. journalctl does not report the end of the journal, so a delayed entry cannot be
 * distinguished from one that does not exist. Only the age of the last entry is known.
 */
export class Lag {
  /** Whether there may be more to read. */
  moreWaits: () => boolean = () => true
  readonly #context: SourceContext
  /** When journald received the last entry. */
  #takenAt: number | undefined
  #whenReadMs = 0

  constructor(context: SourceContext) {
    this.#context = context
    context.metrics.gauges(
      'sluice_journal_lag_seconds',
      'Age of the last entry when it was read. While more entries wait or journalctl does not run, its current age.',
      () => this.#read(),
    )
  }

  /** Registers that an entry was read. */
  at(entry: Entry): void {
    this.#takenAt = takenAt(entry) ?? this.#takenAt
    this.#whenReadMs = this.#ageMs
  }

  get #ageMs(): number {
    const now = this.#context.clock.wall()
    // Clocks may be set, and entries may come from other machines.
    return Math.max(0, now - (this.#takenAt ?? now))
  }

  #read(): { labels: Record<string, string>; value: number }[] {
    // The lag is unknown before the first entry.
    if (this.#takenAt === undefined) return []
    return [{ labels: {}, value: (this.moreWaits() ? this.#ageMs : this.#whenReadMs) / 1000 }]
  }
}
