import { Seeded } from '../../support/seeded.js'
import { areTwo, FEATURES, MODES, type Mode, NAMES, REFUSED, TIMES, type Time, WINDOWS } from './features.js'
import type { Options } from './model.js'
import { durationOf, type Fields } from './text.js'

/** What happens to a throttle, one thing after the other. */
export type Step =
  | { readonly do: 'send'; readonly source: string; readonly isBacklog: boolean; readonly events: readonly Fields[] }
  | { readonly do: 'advance'; readonly ms: number }
  /** With the options that it has from then on, if they change. */
  | { readonly do: 'reload'; readonly options?: Options }
  | { readonly do: 'limits_file'; readonly rules: readonly Options[] }
  /** Another process goes on after so long: with its files, and if it was killed with those of its last save. */
  | { readonly do: 'restart'; readonly ms: number; readonly isKill: boolean }

export interface Scenario {
  readonly seed: number
  readonly mode: Mode
  readonly time: Time
  readonly features: readonly string[]
  readonly options: Options
  readonly fileRules: readonly Options[]
  /** The wall clock at the start. */
  readonly wall: number
  readonly steps: readonly Step[]
}

/** All pairs of options, each with every mode on the clock and in event time: so many runs try them all. */
export const PAIRS = NAMES.flatMap((a, n) => NAMES.slice(n + 1).flatMap(b => (areTwo(a, b) ? [[a, b] as const] : [])))
const KINDS = MODES.flatMap(mode => TIMES.map(time => ({ mode, time })))
export const ALL_PAIRS = PAIRS.length
export const ALL_RUNS = PAIRS.length * KINDS.length

/** Seconds before midnight or a change of clocks in some zone, and a time without anything. */
const WALLS = ['2023-10-29T00:59:58Z', '2023-03-25T22:59:57Z', '2023-09-03T03:59:58Z', '2023-11-14T22:13:20Z']
const KEYS = ['a', 'b', 'c1', 'a2', 1, '1', true, '*x', '[', 'ü€', '__other__', { x: 1 }, [1], null, '', undefined]
const LONG = 'k'.repeat(300)
const SOURCES = ['s1', 's2']
const LONGEST_RUN = 24
/** By how many milliseconds events may be out of order. */
const LATE = [0, 0, 0, 1, 99, 100, 500, 1000, 1600, 4000, 12_000]

/** The scenario of a seed: seeds from 0 on try all pairs of options before they begin again. */
export function scenarioOf(seed: number): Scenario {
  const random = new Seeded(seed * 7919 + 1)
  const pair = PAIRS[seed % PAIRS.length]!
  // The kinds follow one another for the same pair, shifted so that the first round has all kinds as well.
  const { mode, time } = KINDS[(Math.floor(seed / PAIRS.length) + (seed % PAIRS.length)) % KINDS.length]!
  return new Maker(random, seed, mode, time, pair).scenario()
}

class Maker {
  readonly #random: Seeded
  readonly #seed: number
  readonly #mode: Mode
  readonly #time: Time
  readonly #features: string[]
  #now = 0
  #wall = 0
  #n = 0
  #keys: readonly unknown[] = []
  #sentAt: number[] = [0]
  #windowMs: number | undefined

  constructor(random: Seeded, seed: number, mode: Mode, time: Time, pair: readonly string[]) {
    this.#random = random
    this.#seed = seed
    this.#mode = mode
    this.#time = time
    this.#features = [...pair]
  }

  scenario(): Scenario {
    const random = this.#random
    for (let more = random.below(4); more > 0; more--) this.#addFeature(random.pick(NAMES))
    if (!this.#features.some(name => name.startsWith('key_field')) && random.chance(0.6))
      this.#features.push('key_field')
    const options = this.#options()
    this.#windowMs = options.window === undefined ? undefined : durationOf(options.window)
    const fileRules = options.limits_file === undefined ? [] : this.#rules()
    this.#wall = Date.parse(random.pick(WALLS))
    this.#keys = [
      ...(random.chance(0.1) ? [LONG] : []),
      ...Array.from({ length: 2 + random.below(6) }, () => random.pick(KEYS)),
    ]
    const about = { seed: this.#seed, mode: this.#mode, time: this.#time, features: this.#features }
    return { ...about, options, fileRules, wall: this.#wall, steps: this.#steps(options) }
  }

  /** Adds a feature that goes with all others and is not refused. */
  #addFeature(name: string): void {
    const refused = ['burst', 'max_delay', 'allowed_lateness', 'on_late', 'over_limit:wait']
    if (refused.includes(name) || !this.#features.every(other => areTwo(name, other))) return
    this.#features.push(name)
  }

  #options(): Options {
    const random = this.#random
    const options: Options =
      this.#mode === 'quota'
        ? { quota: { limit: 1 + random.below(8), per: random.pick(['hour', 'day', 'month']) } }
        : { limit: 1 + random.below(4), window: random.pick(WINDOWS), window_mode: this.#mode }
    if (this.#time === 'event') options.time_field = random.pick(['.ts', 'auto'])
    // Rules and what they merge with come last.
    const sorted = this.#features.toSorted((a, b) => Number(a.startsWith('limits')) - Number(b.startsWith('limits')))
    for (const name of sorted) FEATURES[name]!({ options, mode: this.#mode, random })
    // When idle buckets of rules make room depends on more than a model wants to know.
    if (options.max_keys !== undefined && (options.limits || options.limits_file || this.#time === 'event')) {
      if (options.on_max_keys === 'default_bucket') delete options.max_keys
      if (waits(options)) delete options.max_keys
      // Nothing tells an event without a bucket from one that is not the one of so many.
      if (options.mode === 'shadow' && typeof options.over_limit === 'object') delete options.max_keys
    }
    // An event that never fits is one or the other, depending on what came out before it.
    if (waits(options) && (options.limit_bytes ?? options.cost ?? options.quota) !== undefined) delete options.max_keys
    return options
  }

  #rules(): Options[] {
    const random = this.#random
    const rule = (): Options => ({
      when: random.pick(["if (.lv equal 'error')", "if (.h equal 'h2')"]),
      limit: 1 + random.below(5),
      window: random.pick(WINDOWS),
    })
    return Array.from({ length: random.below(3) }, rule)
  }

  #steps(options: Options): Step[] {
    const random = this.#random
    const steps: Step[] = this.#join()
    const reloads = this.#features.flatMap(name => {
      // One goes on with what another one has saved, which may have inherited it.
      if (name.startsWith('persist')) return random.chance(0.5) ? [name, name] : ['reload', name]
      return /^reload|^limits_file:changes/.test(name) ? [name] : []
    })
    const length = 8 + random.below(LONGEST_RUN)
    const places = reloads.map(() => 3 + random.below(length - 4))
    for (let n = 0; n < length; n++) {
      for (const [which, name] of reloads.entries()) if (places[which] === n) steps.push(...this.#change(name, options))
      if (random.chance(0.4)) this.#advance(steps, this.#pause())
      else steps.push(this.#send(random.pick(SOURCES), random.chance(0.3)))
    }
    return steps
  }

  #advance(steps: Step[], ms: number): void {
    this.#now += ms
    steps.push({ do: 'advance', ms })
  }

  #pause(): number {
    // To the end of a window that began with one of the batches.
    const pauses = this.#sentAt.map(at => at + (this.#windowMs ?? 0) - this.#now).filter(ms => ms > 0)
    const exact = this.#random.pick([...pauses, 0])
    if (exact > 0 && this.#random.chance(0.5)) return this.#isShort ? Math.min(exact, 1501) : exact
    const window = this.#random.pick([100, 1000, 1500, 10_000])
    const pause = this.#random.pick([0.25, 1, 50, window / 2, window - 1, window, window, window + 1, 3 * window])
    return this.#isShort ? Math.min(pause, 1501) : pause
  }

  /** Whether the model has to know of no late event, and of no bucket that is released. */
  get #isShort(): boolean {
    return this.#time === 'event' && !this.#features.some(name => name === 'allowed_lateness' || name === 'on_late')
  }

  #change(name: string, options: Options): Step[] {
    const random = this.#random
    if (name === 'limits_file:changes') {
      const steps: Step[] = [{ do: 'limits_file', rules: this.#rules() }]
      // A file that stays the same for a second is read.
      this.#now += 2500
      return steps
    }
    if (name.startsWith('persist')) {
      const ms = random.chance(0.5) ? 0 : this.#pause()
      this.#now += ms
      return [{ do: 'restart', ms, isKill: name === 'persist:kill' }, ...this.#join()]
    }
    if (name === 'reload') return [{ do: 'reload' }, ...this.#join()]
    const changed = { ...options, exclude: "if (.lv equal 'debug')", max_keys: random.below(2) ? 5000 : 6000 }
    return [{ do: 'reload', options: changed }, ...this.#join()]
  }

  /** In event time, all sources begin with an event in order, so that windows are kept for them. */
  #join(): Step[] {
    if (this.#time === 'clock') return []
    return SOURCES.map(source => ({
      do: 'send',
      source,
      isBacklog: false,
      events: [{ n: this.#n++, k: 'a', lv: 'join', ...this.#timed(source, true) }],
    }))
  }

  #send(source: string, isBacklog: boolean): Step {
    this.#sentAt.push(this.#now)
    const events = Array.from({ length: 1 + this.#random.below(7) }, () => this.#event(source))
    return { do: 'send', source, isBacklog, events }
  }

  #event(source: string): Fields {
    const random = this.#random
    const fields: Fields = { n: this.#n++, k: random.pick(this.#keys), h: random.pick(['h1', 'h2', undefined]) }
    fields.lv = random.pick(['error', 'info', 'info', null])
    if (random.chance(0.4)) fields.c = random.pick([0, 0.5, 1, 2, 2.000001, 7, -1, 'x', null, 1e6])
    if (random.chance(0.4)) fields.pad = 'ä'.repeat(random.below(40))
    return { ...fields, ...this.#timed(source, false) }
  }

  #timed(source: string, inOrder: boolean): Fields {
    if (this.#time === 'clock') return {}
    const random = this.#random
    const now = Math.floor(this.#wall + this.#now)
    const lag = source === 's1' ? 0 : 700
    if (!inOrder && random.chance(0.05)) return random.chance(0.5) ? {} : { ts: 'yesterday' }
    if (!inOrder && random.chance(0.03)) return { ts: now + 3_600_000 }
    const late = inOrder ? 0 : random.pick(this.#isShort ? LATE : [...LATE, 70_000])
    const at = now - lag - late
    return { ts: random.chance(0.3) ? new Date(at).toISOString() : at }
  }
}

export const waits = ({ over_limit, on_backlog, mode, time_field }: Options) =>
  time_field === undefined &&
  mode !== 'shadow' &&
  (on_backlog === 'pace' || (typeof over_limit === 'object' && 'wait' in over_limit!))

/** The option that `validate` has to refuse. */
export function refusedPath({ options, features }: Scenario): string | undefined {
  return REFUSED.find(({ holds }) => holds(options, name => features.includes(name)))?.path
}
