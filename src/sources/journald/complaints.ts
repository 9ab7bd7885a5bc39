import type { SourceContext } from '../../core/component.js'

const LINES = 20
const WINDOW_MS = 60_000

/** Counts what goes wrong with journalctl, and logs it once, until it works again or fails in another way. */
export class Complaints {
  readonly #context: SourceContext
  #failure = ''
  #lines = 0
  #since = Number.NEGATIVE_INFINITY
  #strange = 0

  constructor(context: SourceContext) {
    this.#context = context
  }

  ended(why: string): void {
    const { log, metrics } = this.#context
    metrics.failed('journalctl')
    if (this.#failure === why) return
    this.#failure = why
    log.error({ code: 'SLUICE_JOURNALCTL_ENDED', why }, 'journalctl has ended; it is started again until it stays')
  }

  works(): void {
    if (this.#failure !== '') this.#context.log.info('the journal can be read again')
    this.#failure = ''
  }

  /** A line of its standard error: shown, unless there were many lately. */
  line(text: string): void {
    const { clock, log } = this.#context
    const now = clock.now()
    if (now - this.#since >= WINDOW_MS) {
      if (this.#lines > LINES) log.warn({ lines: this.#lines - LINES }, 'journalctl has said more than was shown')
      this.#since = now
      this.#lines = 0
    }
    if (++this.#lines <= LINES) log.warn({ text }, 'journalctl says')
  }

  /** So many lines of its output were no entries, since it was started. */
  strange(lines: number): void {
    const { log, metrics } = this.#context
    for (; this.#strange < lines; this.#strange++) {
      metrics.failed('not_an_entry')
      if (this.#strange === 0) log.warn('journalctl wrote what is no entry: such lines are left out')
    }
    this.#strange = lines
  }
}
