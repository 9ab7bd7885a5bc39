import { annotationProblems, type Discard, everyMs, Interval, isSummary, KeyCounts } from './evidence.js'
import { LiveApps } from './live-apps.js'
import { type Arrival, type Decision, type Kind, type Options, ThrottleModel } from './model.js'
import type { Seen } from './product.js'
import { waits } from './scenario.js'
import { bucketOf, durationOf, type Fields } from './text.js'

/** Compares what a throttle does with its model. */

export interface Sent extends Arrival {
  readonly line: string
  readonly isBacklog: boolean
  /** Whether its app has stayed within the limits: then it may not be lost because of backlog. */
  isWithin: boolean
  /** Since when it would have fitted, as far as it was looked at. */
  fitsSince?: number | undefined
}

/** What comes after a throttle; `same`: one with the same options in the same process. */
export type Next = 'end' | 'same' | 'restart' | 'kill' | Options

/** What the metrics tell of an event. */
export interface Told {
  readonly kind: Kind | undefined
  /** There was no room for its key. */
  readonly isFull: boolean
}

/**
 * How much later than possible an event that waits, or that came behind such ones, may be decided: some batches every
 * five milliseconds.
 */
const LATEST_MS = 100
/** After a limits file has changed. */
const FILE_MS = 500
const HOUR_MS = 3_600_000

export class Judge {
  readonly problems: string[] = []
  /** `sluice_throttle_events_total` by decision, and discarded events by reason. */
  readonly decisions = new Map<string, number>()
  readonly reasons = new Map<string, number>()
  readonly keys = new KeyCounts()
  model: ThrottleModel
  /** What came live; undefined where nothing is said about that. */
  #live: LiveApps | undefined
  #options: Options
  readonly #offsetMs: number
  /** Events that have not come out yet, by their number. */
  readonly waiting = new Map<number, Sent>()
  /** The counts of `pass_one_in`, by bucket; null: of all that share one. */
  #overLimit = new Map<string | null, number>()
  /** The same where events wait: what was over the limit, and what of it passed. */
  #stoppedOf = new Map<string | null, { all: number; sampled: number }>()
  #interval: Interval
  /** Whether there ever was backlog. */
  #hasPaced = false
  #counters: { unreadable: number; ahead: number } = { unreadable: 0, ahead: 0 }

  constructor(options: Options, offsetMs: number, fileRules: readonly Options[]) {
    this.#options = options
    this.#offsetMs = offsetMs
    this.model = new ThrottleModel(options, offsetMs, fileRules)
    this.#interval = new Interval(0)
    this.#live = this.#liveApps(fileRules)
  }

  #liveApps(fileRules: readonly Options[]): LiveApps | undefined {
    const { on_backlog, max_keys, time_field } = this.#options
    if (on_backlog !== 'pace' || max_keys !== undefined || time_field !== undefined) return undefined
    return new LiveApps(this.#options, this.#offsetMs, fileRules)
  }

  useFile(rules: readonly Options[]): void {
    this.model.useFile(rules)
    this.#live?.useFile(rules)
  }

  get #isShadow(): boolean {
    return this.#options.mode === 'shadow'
  }

  get waits(): boolean {
    return waits(this.#options)
  }

  /** How long an event may wait at most; `isPaced`: for backlog, or behind it. */
  maxWaitMs(isPaced: boolean): number {
    const { over_limit: over, on_backlog, max_delay } = this.#options
    if (!this.waits) return 0
    const live = typeof over === 'object' ? durationOf((over as { wait?: string }).wait ?? '0ms') : 0
    return isPaced && on_backlog === 'pace' ? (max_delay === undefined ? HOUR_MS : durationOf(max_delay)) : live
  }

  #problem(text: string, sent?: Sent): void {
    this.problems.push(sent ? `${text}: ${sent.line.slice(0, 200)} from ${sent.source}, sent at ${sent.now}` : text)
  }

  #count(decision: string): void {
    this.decisions.set(decision, (this.decisions.get(decision) ?? 0) + 1)
  }

  /** A batch was sent, and this came out. `now`: the monotonic clock; `told`: of a single event. */
  sent(lines: readonly string[], source: string, isBacklog: boolean, now: number, seen: Seen, told?: Told): void {
    const batch = lines.map((line): Sent => {
      const arrival = { event: JSON.parse(line) as Fields, size: Buffer.byteLength(line) + 1, source, now }
      return { ...arrival, line, isBacklog, isWithin: !isBacklog && (this.#live?.isWithin(arrival) ?? false) }
    })
    if (isBacklog) this.#hasPaced = true
    for (const sent of batch) this.waiting.set(sent.event.n as number, sent)
    for (const sent of batch) if (!isBacklog && !sent.isWithin) this.#isBeyond(sent)
    if (this.waits) this.#seeWaiting(seen, now)
    else this.#seeBatch(batch, seen, told)
  }

  /** Time went by, and this came out. */
  later(seen: Seen, now: number): void {
    if (this.waits) this.#seeWaiting(seen, now)
    else {
      const { passed, discarded } = this.#withoutSummaries(seen, now)
      for (const line of [...passed, ...discarded]) this.#problem(`came out late: ${line}`)
    }
  }

  /** It has ended, and is replaced by what comes next: one with other options, or one in another process. */
  ended(seen: Seen, now: number, next: Next, fileRules: readonly Options[]): Sent[] {
    if (this.#options.summary) this.#endInterval(seen, now, true)
    else this.later(seen, now)
    const isReload = next === 'same' || typeof next === 'object'
    const passesOn = isReload && waits(typeof next === 'object' ? next : this.#options)
    const back = passesOn ? [] : [...this.waiting.values()]
    if (!passesOn) this.waiting.clear()
    this.#interval.since = now
    if (next === 'end') return back
    if (next === 'same') {
      this.model.newSources()
      this.model.save()
    } else {
      this.#counters = { unreadable: this.unreadable, ahead: this.ahead }
      if (typeof next === 'object') this.#options = next
      // What was late is not saved.
      this.#live = this.#options.persist === true ? undefined : this.#liveApps(fileRules)
      this.model = this.model.successor(this.#options, fileRules, next === 'kill')
      this.#overLimit = new Map()
      this.#stoppedOf = new Map()
      this.keys.forget()
    }
    return back
  }

  /** The next one has begun. */
  began(now: number): void {
    this.#interval.since = now
  }

  get unreadable(): number {
    return this.#counters.unreadable + this.model.unreadable
  }

  get ahead(): number {
    return this.#counters.ahead + this.model.ahead
  }

  #seeBatch(batch: readonly Sent[], seen: Seen, told: Told | undefined): void {
    const { passed, discarded } = this.#withoutSummaries(seen, batch[0]!.now)
    const wanted = { passed: [] as string[], discarded: [] as string[] }
    const decided = batch.map(sent => ({ sent, ...this.#decide(sent, told) }))
    for (const { sent, decision, isFull } of decided) {
      this.waiting.delete(sent.event.n as number)
      const end = this.#carryOut(sent, decision, sent.now)
      const goesOn = end !== 'discarded' || this.#isShadow
      const lines = goesOn ? passed : discarded
      const line = lines[wanted[goesOn ? 'passed' : 'discarded'].length]
      wanted[goesOn ? 'passed' : 'discarded'].push(sent.line)
      this.#compare(sent, line, end, decision, isFull)
    }
    for (const name of ['passed', 'discarded'] as const)
      if (seen[name].length - this.#summariesIn(seen[name]) !== wanted[name].length)
        this.#problem(`${seen[name].length} ${name}, not ${wanted[name].length}`)
  }

  /** Whether it is backlog that nothing decides on. */
  #isPassedBacklog({ isBacklog }: Sent): boolean {
    const { on_backlog, time_field } = this.#options
    return isBacklog && on_backlog === 'pass' && time_field === undefined
  }

  #decide(sent: Sent, told: Told | undefined): { decision: Decision | 'backlog'; isFull: boolean } {
    if (this.#isPassedBacklog(sent)) return { decision: 'backlog', isFull: false }
    const full = this.model.fullness(sent)
    const isFull = full === 'yes' || (full === 'maybe' && told?.isFull === true)
    return { decision: this.model.decide(sent, isFull, told?.kind), isFull }
  }

  /** Counts what becomes of an event that a limit or the number of keys stopped. */
  #carryOut(sent: Sent, decision: Decision | 'backlog', now: number): 'passed' | 'marked' | 'sampled' | 'discarded' {
    const { over_limit: over } = this.#options
    const key = bucketOf(this.#options.key_field, sent.event)
    const shadow = (name: string) => (this.#isShadow ? { marked: 'would_mark', sampled: 'would_sample' }[name]! : name)
    if (decision !== 'refused' && decision !== 'full' && decision !== 'too_late') {
      this.#count(decision === 'unlimited' ? 'passed' : decision)
      return 'passed'
    }
    if (decision === 'refused') {
      if (typeof over === 'object' && 'pass_one_in' in over! && this.#isSampled(key, over.pass_one_in as number)) {
        this.#count(shadow('sampled'))
        return 'sampled'
      }
      if (over === 'mark') {
        this.#count(shadow('marked'))
        return 'marked'
      }
    }
    this.#discard(sent, decision, now)
    return 'discarded'
  }

  #discard(sent: Sent, decision: 'refused' | 'full' | 'too_late', now: number): void {
    const key = bucketOf(this.#options.key_field, sent.event)
    this.#count(decision === 'too_late' ? 'late' : this.#isShadow ? 'would_discard' : 'discarded')
    const discard: Discard = { key, size: sent.size, line: sent.line, at: now + this.#offsetMs }
    if (this.#options.summary) this.#interval.add(discard)
    if (this.#options.per_key_metrics) this.keys.add(key)
    if (this.#isShadow) return
    const isBacklog = sent.isBacklog && !this.model.inEventTime
    const reasons = { refused: isBacklog ? 'throttled_backlog' : 'throttled', full: 'max_keys', too_late: 'late' }
    const reason = reasons[decision]
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1)
  }

  #isSampled(key: string | null, oneIn: number): boolean {
    const most = (this.#options.max_keys as number | undefined) ?? 100_000
    const own = key !== null && (this.#overLimit.has(key) || this.#overLimit.size - 1 < most) ? key : null
    if (!this.#overLimit.has(null)) this.#overLimit.set(null, 0)
    const count = (this.#overLimit.get(own) ?? 0) + 1
    this.#overLimit.set(own, count % oneIn)
    return count === oneIn
  }

  /** Compares a line that came out with the one that is expected. */
  #compare(sent: Sent, line: string | undefined, end: string, decision: string, isFull: boolean): void {
    const { annotate } = this.#options
    const isAnnotated = !this.#isShadow && (end === 'marked' || (end === 'discarded' && annotate === true))
    if (line === undefined) this.#problem(`is not ${end} (${decision})`, sent)
    else if (!isAnnotated) {
      if (line !== sent.line) this.#problem(`${line} instead of ${end} (${decision})`, sent)
    } else {
      const { throttle, ...rest } = JSON.parse(line) as Fields
      if (JSON.stringify(rest) !== sent.line) this.#problem(`${line} instead of ${end} (${decision})`, sent)
      const refusal = decision !== 'refused' ? 'none' : this.#isCertain ? this.model.refusal(sent, isFull) : undefined
      const isBacklog = end === 'discarded' && sent.isBacklog && !this.model.inEventTime
      const reasons: Record<string, string> = { full: 'max_keys', too_late: 'late' }
      const reason = reasons[decision] ?? (isBacklog ? 'throttled_backlog' : undefined)
      const problems = annotationProblems(throttle as Fields, sent, this.model, refusal, reason)
      if (problems.length > 0) this.#problem(`annotated wrongly (${problems.join(', ')}): ${line}`, sent)
    }
  }

  /** Whether what a limit says of an event is the same until its batch ends, and no other key has taken its bucket. */
  get #isCertain(): boolean {
    return !this.model.inEventTime && this.#options.max_keys === undefined
  }

  #summariesIn = (lines: readonly string[]) => lines.filter(isSummary).length

  /** Takes out the summaries, and judges them. */
  #withoutSummaries(seen: Seen, now: number): { passed: string[]; discarded: string[] } {
    const every = everyMs(this.#options)
    if (every !== undefined) {
      const isDue = now > this.#interval.since && now - this.#interval.since >= every
      if (isDue || this.#summariesIn([...seen.passed, ...seen.discarded]) > 0) this.#endInterval(seen, now, false)
    }
    const others = (lines: readonly string[]) => lines.filter(line => !isSummary(line))
    return { passed: others(seen.passed), discarded: others(seen.discarded) }
  }

  #endInterval(seen: Seen, now: number, isLast: boolean): void {
    const { to } = this.#options.summary as { to: string }
    const every = everyMs(this.#options)!
    const passed = seen.passed.filter(isSummary)
    const discarded = seen.discarded.filter(isSummary)
    if (to === 'passed' && discarded.length > 0) this.#problem('summaries with what was discarded')
    if (to === 'discarded' && passed.length > 0) this.#problem('summaries with what passed')
    if (to === 'both' && passed.join() !== discarded.join()) this.#problem('different summaries')
    if (!isLast && now - this.#interval.since !== every)
      this.#problem(`summaries ${now - this.#interval.since} ms after those before`)
    const lines = to === 'discarded' ? discarded : passed
    const problems = this.waits
      ? this.#interval.endLoosely(lines, isLast, now)
      : this.#interval.end(lines, this.#options, now)
    this.problems.push(...problems)
  }

  /** What came out of a throttle in which events wait. What passed has to fit, what was discarded must not. */
  #seeWaiting(seen: Seen, now: number): void {
    const take = (line: string) => {
      const { throttle, ...rest } = JSON.parse(line) as Fields
      const sent = this.waiting.get(rest.n as number)
      this.waiting.delete(rest.n as number)
      if (!sent || JSON.stringify(rest) !== sent.line) {
        this.#problem(`not sent, or changed: ${line}`)
        return undefined
      }
      return { sent, throttle, asked: { ...sent, now } }
    }
    const isLine = (line: string) => !isSummary(line)
    // What comes behind an event that does not fit may take its room, so it is looked at when all have passed.
    const stopped: { sent: Sent; isFull: boolean }[] = []
    for (const line of seen.passed.filter(isLine)) {
      const found = take(line)
      if (!found) continue
      const { sent, throttle, asked } = found
      if (this.#isPassedBacklog(sent)) {
        this.#count('backlog')
        continue
      }
      const isFull = this.model.fullness(asked) === 'yes'
      const decision = this.model.decide(asked, isFull)
      const { over_limit: over } = this.#options
      if (decision !== 'refused') {
        if (throttle !== undefined) this.#problem(`is marked, and fits at ${now}`, sent)
        this.#carryOut(sent, decision, now)
      } else if (over === 'mark' ? throttle !== undefined : typeof over === 'object' && 'pass_one_in' in over!) {
        this.#count(over === 'mark' ? 'marked' : 'sampled')
        this.#stopped(sent, 1)
        stopped.push({ sent, isFull })
      } else this.#problem(`passes, and does not fit at ${now}`, sent)
    }
    for (const line of seen.discarded.filter(isLine)) {
      const found = take(line)
      if (!found) continue
      const { sent, throttle, asked } = found
      const isFull = this.model.fullness(asked) === 'yes'
      const discardsFull = isFull && this.#options.on_max_keys === 'discard'
      this.#discard(sent, discardsFull ? 'full' : 'refused', now)
      if (!discardsFull) this.#stopped(sent, 0)
      if (!discardsFull) stopped.push({ sent, isFull })
      if ((throttle !== undefined) !== (this.#options.annotate === true)) this.#problem(`annotation ${line}`, sent)
    }
    for (const { sent, isFull } of stopped) this.#mustBeHopeless(sent, now, isFull)
    if (this.#options.summary) this.#withoutSummaries(seen, now)
    this.#checkSampled()
    for (const sent of this.waiting.values()) this.#mayWait(sent, now)
  }

  /** Of the events of each bucket that a limit stopped for good, as many have to pass as `pass_one_in` says. */
  #stopped(sent: Sent, sampled: number): void {
    const key = bucketOf(this.#options.key_field, sent.event)
    const stopped = this.#stoppedOf.get(key) ?? { all: 0, sampled: 0 }
    this.#stoppedOf.set(key, { all: stopped.all + 1, sampled: stopped.sampled + sampled })
  }

  #checkSampled(): void {
    const { over_limit: over, max_keys } = this.#options
    // With few keys, some share a count.
    if (typeof over !== 'object' || !('pass_one_in' in over!) || max_keys !== undefined) return
    for (const [key, { all, sampled }] of this.#stoppedOf)
      if (sampled !== Math.floor(all / (over.pass_one_in as number)))
        this.#problem(`${sampled} of ${all} pass of ${key}`)
  }

  /** An app exceeds its limits. Which of its events does depends on the order in which those that wait are decided. */
  #isBeyond({ event }: Sent): void {
    const { key_field } = this.#options
    const key = bucketOf(key_field, event)
    for (const other of this.waiting.values()) if (bucketOf(key_field, other.event) === key) other.isWithin = false
  }

  /** An event that did not fit until now: neither would it until the end of its time. */
  #mustBeHopeless(sent: Sent, now: number, isFull: boolean): void {
    const until = sent.now + this.maxWaitMs(sent.isBacklog || sent.isWithin)
    if (now < until && this.model.fitsAt(sent, until, isFull))
      this.#problem(`does not wait at ${now}, and would fit by ${until}`, sent)
  }

  #mayWait(sent: Sent, now: number): void {
    const until = sent.now + this.maxWaitMs(sent.isBacklog || this.#hasPaced)
    if (now > until + LATEST_MS) this.#problem(`still waits at ${now}`, sent)
    const isFull = this.model.fullness({ ...sent, now }) === 'yes'
    // An event in the default bucket waits for room there, even if its key could have a bucket of its own by now.
    if (this.#options.max_keys !== undefined || !this.model.fitsAt(sent, now, isFull)) sent.fitsSince = undefined
    else if (now - (sent.fitsSince ??= now) > LATEST_MS + (this.#options.limits_file ? FILE_MS : 0))
      this.#problem(`waits at ${now}, and fits since ${sent.fitsSince}`, sent)
  }
}
