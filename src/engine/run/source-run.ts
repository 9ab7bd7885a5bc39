import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import type { REPLACED, Source } from '../../core/component.js'
import { errorCode, errorText, GivenBackError } from '../../core/errors.js'
import { Backoff, type Random } from '../../lib/backoff.js'
import { sleep, type TimerClock } from '../../lib/time.js'
import { formatDuration } from '../../lib/units.js'
import type { ComponentConfig } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { FanOut } from '../flow/fan-out.js'
import type { SourceOutput } from '../flow/source-output.js'

const RESTART_FIRST_MS = 1000
const RESTART_MAX_MS = 60_000
/** A source that ran for this long is considered to have recovered. */
const CALM_MS = 2000

export interface SourceRunParts {
  readonly config: ComponentConfig<'source'>
  readonly source: Source
  readonly output: SourceOutput
  readonly counters: ComponentCounters
  readonly log: Logger
  readonly random: Random
  readonly clock: TimerClock
}

/** A source that does not read: it failed and will be restarted, or it is blocked until an operator intervenes. */
export interface SourceFailure {
  readonly id: string
  readonly state: 'failing' | 'holding'
  readonly reason: string
}

/** A source and the fan-out that it feeds. */
export interface Fed {
  readonly run: SourceRun
  readonly fanOut: FanOut
}

/** Whether a source reads again what was given back. */
export function readsAgain(id: string, sources: readonly Fed[]): boolean {
  return sources.some(({ run }) => run.config.id === id && !run.source.once)
}

/** A source from start to end. Restarted when it fails, and kept while the components behind it are replaced. */
export class SourceRun {
  readonly config: ComponentConfig<'source'>
  readonly source: Source
  readonly output: SourceOutput
  readonly #parts: SourceRunParts
  readonly #reading = new AbortController()
  #failure: SourceFailure | undefined
  #state: 'new' | 'runs' | 'ended' = 'new'
  /** Ends `feed`. */
  #leave: ((failure?: Error) => void) | undefined

  constructor(parts: SourceRunParts) {
    this.config = parts.config
    this.source = parts.source
    this.output = parts.output
    this.#parts = parts
    setMaxListeners(0, this.#reading.signal)
  }

  /** Feeds the fan-out until the source ends or `leave` is called, then ends the fan-out. */
  async feed(fanOut: FanOut): Promise<void> {
    // No Promise.race with the run's promise: that would retain every fan-out for as long as the source runs.
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

  /** Pauses sending and leaves the fan-out. `output.attach` followed by `feed` resumes. */
  leave(): void {
    this.output.hold()
    this.#leave?.()
  }

  get counters(): ComponentCounters {
    return this.#parts.counters
  }

  /** Why it is blocked, or why it failed recently. */
  get failure(): SourceFailure | undefined {
    const { config, source } = this
    return source.heldBy === undefined ? this.#failure : { id: config.id, state: 'holding', reason: source.heldBy }
  }

  /** Whether it has left its fan-out and is paused. */
  get isHeld(): boolean {
    return this.output.isHeld
  }

  /** Stops reading; `reason` is REPLACED at a reload. */
  end(reason?: typeof REPLACED): void {
    if (reason !== undefined) this.output.replace()
    this.#reading.abort(reason)
  }

  async #run(): Promise<void> {
    const { config, source, output, counters, log, random, clock } = this.#parts
    const { signal } = this.#reading
    const backoff = new Backoff(RESTART_FIRST_MS, RESTART_MAX_MS, random)
    while (!signal.aborted) {
      const calm = clock.after(CALM_MS, () => {
        this.#failure = undefined
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
          // The reload ended before all events were delivered. The source itself did not fail.
          const text = 'events were not delivered before the reload; the source reads them again from its checkpoint'
          log.info({ component: config.id, again_in }, text)
        } else {
          counters.failed('source')
          this.#failure = { id: config.id, state: 'failing', reason: errorText(error) }
          const fields = { component: config.id, code: errorCode(error), error: errorText(error), again_in }
          log.error(fields, 'source failed; it will be restarted from its checkpoint')
        }
        calm()
        await sleep(waitMs, signal, (ms, fn) => clock.after(ms, fn))
        // What it reads during a replacement would be given back with the rest.
        await output.resumed()
      } finally {
        calm()
      }
    }
  }
}
