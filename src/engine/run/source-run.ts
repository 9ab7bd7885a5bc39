import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { REPLACED, Source, SourceContext } from '../../core/component.js'
import { errorCode, errorText, GivenBackError, labelWords } from '../../core/errors.js'
import type { SourceFailure } from '../../core/status-document.js'
import { NewerFormat, StateUnreadable } from '../../core/unreadable.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import { sleep, type TimerClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import type { ComponentConfig } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { FanOut } from '../flow/fan-out.js'
import { SourceOutput } from '../flow/source-output.js'
import { STALL_MS } from '../flow/stall.js'

const RESTART_FIRST_MS = 1000
/** How often a source notes that the process runs. Twice in STALL_MS. */
const BEAT_MS = STALL_MS / 2
const RESTART_MAX_MS = 60_000
const REOPEN_FIRST_MS = 500
const REOPEN_MAX_MS = 10_000
/**
 * A source that has run for this long counts as recovered. Longer than a source waits for a connection (5 s) or, by
 * default, for a reply (10 s): otherwise, it would seem to recover in each attempt, and the backoff would never grow.
 */
const CALM_MS = 15_000

export interface SourceRunParts {
  readonly config: ComponentConfig<'source'>
  readonly create: () => Promise<Source>
  readonly context: Pick<SourceContext, 'log' | 'checkpoints'>
  readonly fanOut: FanOut
  /** Maximum number of unacknowledged bytes of the source. */
  readonly share: number
  readonly counters: ComponentCounters
  readonly log: Logger
  readonly random: Random
  readonly clock: TimerClock
}

export interface Fed {
  readonly run: SourceRun
  readonly fanOut: FanOut
}

/**
 * Runs a source from start to end. Restarts it when it fails, and keeps it while downstream components are replaced.
 * Creates the source only when its saved positions can be read. Without them, it would read everything again.
 */
export class SourceRun {
  readonly config: ComponentConfig<'source'>
  readonly output: SourceOutput
  readonly counters: ComponentCounters
  /** Undefined as long as its saved positions cannot be read. */
  source: Source | undefined
  /** Why the source waits for an operator, or why it failed recently. */
  failure: SourceFailure | undefined
  readonly #parts: SourceRunParts
  readonly #reading = new AbortController()
  #state: 'new' | 'runs' | 'ended' = 'new'
  /** Lets `feed` return. */
  #leave: ((failure?: Error) => void) | undefined

  /** Creates the source. If the saved positions cannot be read, `feed` creates the source later. */
  static async open(parts: SourceRunParts): Promise<SourceRun> {
    try {
      return new SourceRun(parts, await parts.create())
    } catch (error) {
      const run = new SourceRun(parts)
      run.#hold(unreadable(error, parts.context))
      return run
    }
  }

  private constructor(parts: SourceRunParts, source?: Source) {
    this.config = parts.config
    this.counters = parts.counters
    this.source = source
    const { fanOut, counters, share, context, clock } = parts
    this.output = new SourceOutput(fanOut, counters, share, context.log, source, clock)
    this.#parts = parts
    setMaxListeners(0, this.#reading.signal)
  }

  /** Feeds the fan-out until the source ends or `leave` is called, then ends the fan-out. */
  async feed(fanOut: FanOut): Promise<void> {
    // Avoids Promise.race with the run's promise, which would keep every fan-out in memory while the source runs.
    const left = new Promise<void>((resolve, reject) => {
      this.#leave = failure => (failure ? reject(failure) : resolve())
    })
    if (this.#state === 'new') this.#begin()
    if (this.#state === 'ended') this.#leave?.()
    await left
    if (this.#state === 'ended') this.output.end()
    fanOut.end()
  }

  #begin(): void {
    this.#state = 'runs'
    const over = (failure?: Error) => {
      this.#state = 'ended'
      this.#leave?.(failure)
    }
    this.#run().then(() => over(), over)
  }

  /** Pauses sending and leaves the fan-out. To resume, call `output.attach`, then `feed`. */
  leave(): void {
    this.output.hold()
    this.#leave?.()
  }

  /** Stops reading. `reason`: REPLACED at a reload. */
  end(reason?: typeof REPLACED): void {
    if (reason !== undefined) this.output.replace()
    this.#reading.abort(reason)
  }

  #hold({ message, code, file }: StateUnreadable): void {
    const { config, context } = this.#parts
    this.counters.failed('checkpoint')
    if (this.failure?.reason === message) return
    this.failure = { id: config.id, state: 'holding', reason: message, ownReason: message }
    const fields = { code, file, error: message }
    context.log.error(fields, 'cannot read the saved positions; the source waits and retries')
  }

  /** Retries until the source can be created. Undefined if the source has to end before that. */
  async #reopen(): Promise<Source | undefined> {
    const { create, context, random } = this.#parts
    const { signal } = this.#reading
    const backoff = new Backoff(REOPEN_FIRST_MS, REOPEN_MAX_MS, random)
    for (;;) {
      await sleep(REOPEN_FIRST_MS + backoff.next(), signal)
      if (signal.aborted) return undefined
      try {
        this.source = await create()
        this.failure = undefined
        context.log.info('saved positions can be read again; starting the source')
        return this.source
      } catch (error) {
        this.#hold(unreadable(error, context))
      }
    }
  }

  async #run(): Promise<void> {
    const { log, random, clock } = this.#parts
    const { config, counters, output } = this
    const { signal } = this.#reading
    const source = this.source ?? (await this.#reopen())
    if (!source) return
    const { checkpoints } = this.#parts.context
    output.lag.resume(checkpoints.caughtUpAt)
    checkpoints.trackCaughtUp?.(() => output.lag.settledAt)
    const backoff = new Backoff(RESTART_FIRST_MS, RESTART_MAX_MS, random)
    let cancel = () => {}
    const beat = () => {
      output.lag.beat()
      cancel = clock.after(BEAT_MS, beat)
    }
    beat()
    while (!signal.aborted) {
      const calm = clock.after(CALM_MS, () => {
        this.failure = undefined
        backoff.reset()
      })
      try {
        await source.start?.(signal)
        await source.run(output, signal)
        break
      } catch (error) {
        if (signal.aborted) break
        const waitMs = backoff.next()
        const again_in = formatDuration(waitMs)
        if (error instanceof GivenBackError) {
          // The reload came before all events were delivered. The source itself did not fail.
          const text = 'events were not delivered before the reload; the source reads them again from its checkpoint'
          log.info({ component: config.id, again_in }, text)
        } else {
          counters.failed('source')
          const ownReason = labelWords(errorCode(error) ?? errorCode(Object(error).cause))
          this.failure = { id: config.id, state: 'failing', reason: errorText(error), ownReason }
          const fields = { component: config.id, code: errorCode(error), error: errorText(error), again_in }
          log.error(fields, 'source failed; it will be restarted from its checkpoint')
        }
        calm()
        await sleep(waitMs, signal, (ms, fn) => clock.after(ms, fn))
        // Waits until the replacement is over, because events read earlier would only be given back.
        await output.resumed()
      } finally {
        calm()
      }
    }
    cancel()
  }
}

/** Returns the error if it means that saved positions cannot be read. Throws any other error. */
function unreadable(error: unknown, { checkpoints }: Pick<SourceContext, 'checkpoints'>): StateUnreadable {
  if (error instanceof NewerFormat && checkpoints.file !== undefined)
    return new StateUnreadable(checkpoints.file, error)
  if (error instanceof StateUnreadable) return error
  throw error
}
