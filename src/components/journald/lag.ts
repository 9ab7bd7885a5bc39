import type { SourceContext } from '../../core/component.js'
import { STALL_MS } from '../../engine/flow/stall.js'
import type { Clock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import type { Taken } from './entries.js'
import { type JournalEntry, takenAt } from './fields.js'

/**
 * Measures how far reading lags behind. journalctl does not report the end of the journal, so the source cannot know
 * whether more entries exist. Only the age of the entry that was read last is known.
 */
export class Lag {
  moreWaits: () => boolean = () => true
  readonly #context: SourceContext
  /** When journald received the entry that was read last, in milliseconds since the epoch. */
  #takenAt: number | undefined
  #whenReadMs = 0

  constructor(context: SourceContext) {
    this.#context = context
    context.metrics.fact({
      name: 'sluice_journal_lag_seconds',
      help: 'Age of the last entry when it was read. While more entries wait or journalctl does not run, the current age of that entry.',
      read: () => this.#read(),
      shown: seconds => seconds !== undefined && `${formatDuration(seconds * 1000)} behind`,
    })
  }

  at(entry: JournalEntry): void {
    this.#takenAt = takenAt(entry) ?? this.#takenAt
    this.#whenReadMs = this.#ageMs
  }

  get #ageMs(): number {
    const now = this.#context.clock.wall()
    // The difference can be negative because a clock was set, or because the entry comes from another machine.
    return Math.max(0, now - (this.#takenAt ?? now))
  }

  #read(): { labels: Record<string, string>; value: number }[] {
    if (this.#takenAt === undefined) return []
    return [{ labels: {}, value: (this.moreWaits() ? this.#ageMs : this.#whenReadMs) / 1000 }]
  }
}

/**
 * Finds the backlog, which has the entries that journald received before reading began, or before reading resumed after
 * a stall. The first entry that was received later ends the backlog. A pause without entries also ends the backlog,
 * because a slow clock of another machine may have dated the entries.
 */
export class CatchUp {
  readonly #clock: Clock
  #until = Number.NEGATIVE_INFINITY
  #idleSince = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  begin(): void {
    this.#until = this.#clock.wall()
    this.#idleSince = Number.POSITIVE_INFINITY
  }

  /** Whether more backlog may come. */
  get isBehind(): boolean {
    return this.#until !== Number.NEGATIVE_INFINITY
  }

  /** Counts the entries at the beginning of `taken` that are of the same kind, which is either backlog or live. */
  same(taken: readonly Taken[]): { readonly count: number; readonly isBacklog: boolean } {
    if (this.#clock.now() - this.#idleSince >= STALL_MS) this.#until = Number.NEGATIVE_INFINITY
    const until = this.#until
    const live = taken.findIndex(({ entry }) => (takenAt(entry) ?? until) >= until)
    if (live === 0) this.#until = Number.NEGATIVE_INFINITY
    return live > 0 ? { count: live, isBacklog: true } : { count: taken.length, isBacklog: live < 0 }
  }

  /**
   * Waits until a batch is sent. If sending takes STALL_MS or longer, the entries that arrived meanwhile are backlog.
   */
  async during(send: Promise<void>): Promise<void> {
    const began = this.#clock.now()
    await send
    const now = this.#clock.now()
    if (now - began >= STALL_MS) this.begin()
    this.#idleSince = now
  }
}
