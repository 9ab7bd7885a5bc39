import { WINDOWS } from './features.js'
import { type Arrival, type Options, ThrottleModel } from './model.js'
import { bucketOf, durationOf } from './text.js'

/** How long it matters that an app exceeded its limits: it is given as much again once. */
const BEYOND_MS = 2 * Math.max(...WINDOWS.map(durationOf))

/** Which live events are those of apps within their limits: of these, none may be lost because of backlog. */
export class LiveApps {
  readonly #model: ThrottleModel
  readonly #keyField: unknown
  /** When apps exceeded their limits, by bucket. */
  readonly #beyondAt = new Map<string | null, number>()

  constructor(options: Options, offsetMs: number, fileRules: readonly Options[]) {
    this.#model = new ThrottleModel(inAnyWindow(options), offsetMs, fileRules.map(withSliding))
    this.#keyField = options.key_field
  }

  useFile(rules: readonly Options[]): void {
    this.#model.useFile(rules.map(withSliding))
  }

  /** Whether an event that arrives is one of them. Call for each. */
  isWithin(arrival: Arrival): boolean {
    const key = bucketOf(this.#keyField, arrival.event)
    if (!this.#model.fitsBehindAll(arrival)) this.#beyondAt.set(key, arrival.now)
    return arrival.now - (this.#beyondAt.get(key) ?? Number.NEGATIVE_INFINITY) > BEYOND_MS
  }
}

/** An app is within its limit if it is so in any window, not only in those that happen to begin with one of its events. */
const inAnyWindow = (options: Options) => withSliding({ window_mode: 'fixed', ...options })

function withSliding(options: Options): Options {
  const { window_mode, also, limits } = options
  const all = (some: unknown) => (some as Options[]).map(withSliding)
  return {
    ...options,
    ...(window_mode === 'fixed' && { window_mode: 'sliding' }),
    ...(also !== undefined && { also: all(also) }),
    ...(limits !== undefined && { limits: all(limits) }),
  }
}
