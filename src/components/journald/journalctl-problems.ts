import type { SourceContext } from '../../core/component.js'

const LINES = 20
const WINDOW_MS = 60_000

/** Counts problems with journalctl. Logs each problem once, until journalctl works again or fails differently. */
export class JournalctlProblems {
  readonly #context: SourceContext
  #failure = ''
  #lines = 0
  #since = Number.NEGATIVE_INFINITY
  #invalidLines = 0

  constructor(context: SourceContext) {
    this.#context = context
  }

  ended(why: string): void {
    const { log, metrics } = this.#context
    metrics.failed('journalctl')
    if (this.#failure === why) return
    this.#failure = why
    log.error({ code: 'SLUICE_JOURNALCTL_ENDED', why }, 'journalctl ended; restarting it')
  }

  works(): void {
    if (this.#failure !== '') this.#context.log.info('the journal can be read again')
    this.#failure = ''
  }

  /** Logs a line of journalctl's standard error, unless there were too many lines recently. */
  line(text: string): void {
    const { clock, log } = this.#context
    const now = clock.now()
    if (now - this.#since >= WINDOW_MS) {
      if (this.#lines > LINES) log.warn({ lines: this.#lines - LINES }, 'suppressed further messages from journalctl')
      this.#since = now
      this.#lines = 0
    }
    if (++this.#lines <= LINES) log.warn({ text }, 'message from journalctl')
  }

  /** Reports lines that are not entries. `lines`: the number of these lines since journalctl was started. */
  invalidLines(lines: number): void {
    const { log, metrics } = this.#context
    for (; this.#invalidLines < lines; this.#invalidLines++) {
      metrics.failed('not_an_entry')
      if (this.#invalidLines === 0) log.warn('ignored a line from journalctl that is not a journal entry')
    }
    this.#invalidLines = lines
  }
}
