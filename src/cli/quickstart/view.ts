import type { KeyWatch } from '../../components/throttle/keyed-processor.js'
import type { Totals } from '../../core/status-document.js'
import { beginning, displayWidth, padEnd, padStart } from '../../daemon/process/wrap.js'
import { formatDuration } from '../../lib/units.js'

/** The numbers of the quickstart: a line each second, and a summary at the end. */

const HEAD_EVERY = 20
const MOST_KEYS = 100
const NAME_WIDTH = 10
const WHY_WIDTH = 26
const NO_KEY = '(none)'

interface Sum {
  readonly passed: number
  readonly discarded: number
}

export interface ViewOptions {
  /** The apps, one column each. */
  readonly apps: readonly string[]
  /** Maximum events per second of each app. */
  readonly limit: number
  /** The name of the machine's log; undefined: no log is read. */
  readonly log: string | undefined
  /** Whether long lines are cut, because they are shown on a screen. */
  readonly isCut: boolean
}

export interface Counts {
  /** Starts to count the throttle's decisions by key. */
  watch(): KeyWatch | undefined
  /** Number of events read from the log of the machine. */
  read(): number
}

/** What happened to all events, as counted by the daemon and the receiver. */
export interface RunSummary extends Pick<Totals, 'received' | 'emitted' | 'delivered' | 'undelivered'> {
  readonly ms: number
  /** The address of the service. */
  readonly url: string
  /** The events at the service. Undefined if they cannot be counted from here. */
  readonly arrived: { readonly lines: number; readonly file: string } | undefined
}

export class LiveView {
  readonly #shown: ViewOptions
  readonly #counts: Counts
  readonly #sums: Map<string, Sum>
  #watch: KeyWatch | undefined
  #read = 0
  #lines = 0

  constructor(shown: ViewOptions, counts: Counts) {
    this.#shown = { ...shown, log: shown.log && shortened(shown.log, NAME_WIDTH) }
    this.#counts = counts
    this.#sums = new Map(shown.apps.map(app => [app, { passed: 0, discarded: 0 }]))
    this.#watch = counts.watch()
  }

  /**
   * The counts since the last call, as text with a line end. `time`: the second of these counts, as in 14:03:12. At the
   * end of the run, empty if nothing was counted.
   */
  next(time: string, isEnd = false): string {
    const { by, read } = this.#advance()
    if (isEnd && by.size === 0 && read === 0) return ''
    const { apps, log, isCut } = this.#shown
    const cells = apps.map(app => padded(number(by.get(app)?.passed ?? 0), app))
    if (log !== undefined) cells.push(number(read).padStart(NAME_WIDTH))
    const why = [...by].filter(([, { discarded }]) => discarded > 0)
    const isPart = isEnd || this.#lines === 0
    const lost = why.map(([app, { discarded }]) => `${number(discarded)} of ${app}`).join(', ')
    const text = [this.#seconds(by, isPart), lost].filter(part => part !== '').join(': ')
    const line = `${time}  ${cells.join('  ')}  ${isCut ? shortened(text, WHY_WIDTH) : text}`.trimEnd()
    return `${this.#lines++ % HEAD_EVERY === 0 ? this.#head() : ''}${line}\n`
  }

  /**
   * Names the seconds of a line whose events had waited for the destination: an app passes its limit in each. The first
   * and the last line are about a part of a second.
   */
  #seconds(by: ReadonlyMap<string, Sum>, isPart: boolean): string {
    const seconds = Math.ceil(Math.max(0, ...[...by.values()].map(({ passed }) => passed)) / this.#shown.limit)
    if (seconds > 1) return `in ${seconds} s`
    return isPart ? 'partial' : ''
  }

  #head(): string {
    const { apps, limit, log } = this.#shown
    const names = apps.map(app => padded(app, app))
    if (log !== undefined) names.push(padStart(log, NAME_WIDTH))
    return `${'passed'.padEnd(8)}  ${names.join('  ')}  discarded: over ${limit}/s\n`
  }

  #advance() {
    const by = new Map<string, Sum>()
    for (const { key, passed, discarded } of this.#watch?.end(MOST_KEYS).keys ?? []) {
      const app = key ?? NO_KEY
      const sum = this.#sums.get(app) ?? { passed: 0, discarded: 0 }
      this.#sums.set(app, { passed: sum.passed + passed, discarded: sum.discarded + discarded })
      by.set(app, { passed, discarded })
    }
    this.#watch = this.#counts.watch()
    const before = this.#read
    this.#read = this.#counts.read()
    return { by, read: this.#read - before }
  }

  /** The totals of all lines, and where the events are. */
  summary({ ms, received, emitted: created, delivered, undelivered, url, arrived }: RunSummary): string {
    const { limit, log } = this.#shown
    // If a second signal ends the run, no line comes after the last events.
    this.#advance()
    // The throttle emits summaries of discarded events.
    const emitted = created?.limit_apps ?? 0
    const sent = delivered.upstream ?? 0
    const row = (name: string, cells: readonly string[], why = '') =>
      `  ${padEnd(name, NAME_WIDTH)}${cells.map(cell => cell.padStart(12)).join('')}   ${why}`.trimEnd()
    const counted = (name: string, { passed, discarded }: Sum, why?: string) =>
      row(name, [number(passed + discarded), number(passed), number(discarded)], why)
    const sums = [...this.#sums]
    const total = (of: keyof Sum) => sums.reduce((sum, [, counts]) => sum + counts[of], 0)
    const passed = sent + undelivered
    const all = { passed, discarded: received + emitted - passed }
    // Events that were under way at the end, or that the throttle of before a reload decided in its last second.
    const others = {
      passed: all.passed - total('passed') - this.#read - emitted,
      discarded: all.discarded - total('discarded'),
    }
    const rest = undelivered > 0 ? `; ${number(undelivered)} were not delivered` : ''
    return [
      '',
      `Ended after ${formatDuration(ms)}.`,
      row('', ['events', 'passed', 'discarded']),
      ...sums.map(([app, sum]) => counted(app, sum, sum.discarded > 0 ? `over ${limit} per second` : '')),
      ...(log === undefined ? [] : [counted(log, { passed: this.#read, discarded: 0 }, 'not limited')]),
      ...(emitted === 0
        ? []
        : [counted('summaries', { passed: emitted, discarded: 0 }, 'events made by the throttle')]),
      ...(others.passed + others.discarded === 0
        ? []
        : [counted('others', others, undelivered > 0 ? 'under way at the end' : 'in a reload')]),
      counted('together', all),
      '',
      `Delivered: ${number(sent)} events to the service at ${url}${rest}.`,
      ...(arrived ? [`Received:  ${number(arrived.lines)} events, one per line in ${arrived.file}.`] : []),
    ]
      .map(line => `${line}\n`)
      .join('')
  }
}

const number = (value: number) => value.toLocaleString('en-US')

const padded = (text: string, app: string) => padStart(text, Math.max(5, displayWidth(app)))

const shortened = (text: string, width: number) =>
  displayWidth(text) > width ? `${beginning(text, width - 1)}…` : text
