import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { throttle } from '../../../src/components/processors/throttle.js'
import { Judge, type Sent } from './judge.js'
import type { Kind, Options } from './model.js'
import { Product, type Seen } from './product.js'
import { refusedPath, type Scenario, type Step, waits } from './scenario.js'

/** Runs a scenario with the product, and judges what comes out. Returns what is wrong. */

export interface Result {
  /** The option that was refused; undefined: none. */
  readonly refused: string | undefined
  readonly problems: readonly string[]
  readonly events: number
}

export async function run(scenario: Scenario): Promise<Result> {
  const refused = refusedPath(scenario)
  const parsed = throttle.options.safeParse(scenario.options)
  if (refused !== undefined || !parsed.success) {
    const paths = (parsed.error?.issues ?? []).map(({ path }) => path.join('.'))
    const isAsExpected = refused !== undefined && paths.includes(refused)
    const problems = isAsExpected ? [] : [`refused for ${paths.join()}, not for ${refused}: ${parsed.error?.message}`]
    return { refused, problems, events: 0 }
  }
  const folder = mkdtempSync(join(tmpdir(), 'sluice-property-'))
  try {
    return await new Run(scenario, await Product.start(scenario, folder)).result()
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const DECISIONS = 'sluice_throttle_events_total'
const BY_KEY = 'sluice_throttle_key_discarded_events_total'

const KINDS: readonly (readonly [Kind, readonly string[]])[] = [
  ['passed', ['passed']],
  ['excluded', ['excluded']],
  ['fail_open', ['fail_open']],
  ['late', ['late']],
  ['stopped', ['discarded', 'would_discard', 'marked', 'would_mark', 'sampled', 'would_sample']],
]

class Run {
  readonly #scenario: Scenario
  readonly #product: Product
  readonly #judge: Judge
  #options: Options
  #fileRules: readonly Options[]
  /** Whether all events are still accounted for; those given back at a reload are the engine's to count. */
  #conserves = true
  #events = 0

  constructor(scenario: Scenario, product: Product) {
    this.#scenario = scenario
    this.#product = product
    this.#options = scenario.options
    this.#fileRules = scenario.fileRules
    this.#judge = new Judge(scenario.options, scenario.wall, scenario.fileRules)
  }

  async result(): Promise<Result> {
    const { problems } = this.#judge
    for (const [n, step] of this.#scenario.steps.entries()) {
      await this.#step(step)
      this.#scrape()
      if (problems.length > 0) return this.#failed(`step ${n}`)
    }
    const until = this.#now + this.#judge.maxWaitMs(true) + 1000
    while (this.#judge.waiting.size > 0 && this.#now < until && problems.length === 0) await this.#advance(10_000)
    await this.#advance(1000)
    this.#scrape()
    for (const { line } of this.#judge.waiting.values()) problems.push(`never came out: ${line}`)
    const seen = await this.#product.end(false)
    this.#judge.ended(seen, this.#now, 'end', [])
    this.#scrape()
    return this.#failed('the end')
  }

  #failed(where: string): Result {
    const problems = this.#judge.problems.map(problem => `${where}, at ${this.#now}: ${problem}`)
    return { refused: undefined, problems, events: this.#events }
  }

  get #now(): number {
    return this.#product.time.now()
  }

  async #step(step: Step): Promise<void> {
    switch (step.do) {
      case 'send':
        return this.#send(
          step.source,
          step.isBacklog,
          step.events.map(event => JSON.stringify(event)),
        )
      case 'advance':
        return this.#advance(step.ms)
      case 'limits_file':
        this.#fileRules = step.rules
        return this.#product.changeFile(step.rules, (seen, isRead) => {
          this.#later(seen)
          if (isRead) this.#judge.useFile(step.rules)
        })
      case 'reload':
        return this.#reload(step.options)
      case 'restart':
        return this.#restart(step)
    }
  }

  #later(seen: Seen): void {
    this.#judge.later(seen, this.#now)
    if (this.#options.persist === true && this.#product.isSaved()) this.#judge.model.save()
  }

  async #send(source: string, isBacklog: boolean, lines: readonly string[]): Promise<void> {
    this.#events += lines.length
    for (const some of this.#isVague ? lines.map(line => [line]) : [lines]) {
      const before = this.#decided
      const seen = await this.#product.send(source, isBacklog, some)
      const after = this.#decided
      const more = (name: string) => (after.get(name) ?? 0) > (before.get(name) ?? 0)
      const kind = KINDS.find(([, names]) => names.some(more))?.[0]
      const { mode, on_max_keys } = this.#options
      const wouldBeFull = mode === 'shadow' && on_max_keys === 'discard' && more('would_discard')
      const isFull = more('fail_open') || more('max_keys') || wouldBeFull
      const told = this.#isVague ? { kind, isFull: isFull && on_max_keys !== 'default_bucket' } : undefined
      this.#judge.sent(some, source, isBacklog, this.#now, seen, told)
    }
  }

  /** Whether decisions depend on when idle buckets are released: then the metrics have to tell of each event. */
  get #isVague(): boolean {
    const { max_keys, limits, limits_file, time_field, allowed_lateness, on_late } = this.#options
    if ((allowed_lateness ?? on_late) !== undefined) return true
    return max_keys !== undefined && (limits ?? limits_file ?? time_field) !== undefined
  }

  get #decided(): Map<string, number> {
    const full = this.#product.counters.discards.get('max_keys')?.events ?? 0
    return new Map([...this.#product.series(DECISIONS, 'decision'), ['max_keys', full]])
  }

  async #advance(ms: number): Promise<void> {
    await this.#product.advance(ms, seen => this.#later(seen))
  }

  async #reload(options: Options | undefined): Promise<void> {
    const next = options ? 'other' : 'same'
    const seen = await this.#product.end(true, waits(options ?? this.#options) ? next : undefined)
    const back = this.#judge.ended(seen, this.#now, options ?? 'same', this.#fileRules)
    await this.#product.begin(options)
    this.#options = options ?? this.#options
    await this.#sendAgain(back)
  }

  async #restart({ ms, isKill }: Extract<Step, { do: 'restart' }>): Promise<void> {
    // What is saved and what passes after a wait at the same time may be in either order.
    const isKilled = isKill && (!this.#judge.waits || this.#product.isLastSaveKnown)
    if (isKilled) this.#product.keepFiles()
    const seen = await this.#product.end(false)
    const back = this.#judge.ended(seen, this.#now, isKilled ? 'kill' : 'restart', this.#fileRules)
    await this.#product.beginLater(ms)
    this.#judge.began(this.#now)
    await this.#sendAgain(back)
  }

  /** Sources send again what was given back. */
  async #sendAgain(back: readonly Sent[]): Promise<void> {
    if (back.length > 0) this.#conserves = false
    for (const { source, isBacklog, line } of back) await this.#send(source, isBacklog, [line])
  }

  /** Compares the metrics. */
  #scrape(): void {
    const { problems } = this.#judge
    const { counters } = this.#product
    const compare = (what: string, is: number, wanted: number) => {
      if (is !== wanted) problems.push(`${what} is ${is}, not ${wanted}`)
    }
    const decisions = this.#product.series(DECISIONS, 'decision')
    for (const name of new Set([...decisions.keys(), ...this.#judge.decisions.keys()]))
      compare(`${DECISIONS} ${name}`, decisions.get(name) ?? 0, this.#judge.decisions.get(name) ?? 0)
    for (const name of new Set([...counters.discards.keys(), ...this.#judge.reasons.keys()]))
      compare(`discarded as ${name}`, counters.discards.get(name)?.events ?? 0, this.#judge.reasons.get(name) ?? 0)
    if (this.#judge.model.inEventTime) {
      const untimed = this.#product.series('sluice_throttle_untimed_events_total', 'reason')
      compare('unreadable', untimed.get('unreadable') ?? 0, this.#judge.unreadable)
      compare('ahead', untimed.get('ahead') ?? 0, this.#judge.ahead)
    }
    if (this.#options.per_key_metrics) {
      const { top } = this.#options.per_key_metrics as { top: number }
      const series = this.#product.series(BY_KEY, 'key')
      const error = Math.max(...this.#product.series('sluice_throttle_key_error_events', 'mode').values())
      problems.push(...this.#judge.keys.problems(series, error, { top }))
    }
    if (this.#conserves) {
      const off = counters.imbalance()
      compare('received + emitted - sent - discarded - in flight', off.events, 0)
      compare('the same in bytes', off.bytes, 0)
    }
  }
}
