import { basename } from 'node:path'
import type { KeyWatch } from '../../core/component.js'
import type { Totals } from '../../engine/measure/totals.js'
import { printable } from '../../lib/printable.js'
import { formatDuration } from '../../lib/units.js'
import { APPS } from './apps.js'
import { LIMIT } from './plan.js'

/** The output of the quickstart: a line each second, and a summary at the end, at most 80 columns wide. */

const HEAD_EVERY = 20
const MOST_KEYS = 100
const LOG_WIDTH = 10
const HELD_WIDTH = 26

interface Sum {
  passed: number
  heldBack: number
}

/** The source of the counts. */
export interface Counts {
  /** Starts to count the throttle's decisions by key. */
  watch(): KeyWatch | undefined
  /** Number of events read from the log of the machine. */
  read(): number
}

export class LiveView {
  readonly #counts: Counts
  readonly #log: string
  readonly #sums = new Map<string, Sum>(APPS.map(({ name }) => [name, { passed: 0, heldBack: 0 }]))
  #watch: KeyWatch | undefined
  #read = 0
  #lines = 0

  /** `log`: the path of the log of the machine. */
  constructor(counts: Counts, log: string) {
    this.#counts = counts
    this.#log = shortened(printable(basename(log)), LOG_WIDTH)
    this.#watch = counts.watch()
  }

  /** The events since the last call as text with a line end. `time` as in 14:03:12. */
  next(time: string): string {
    const { by, read } = this.#advance()
    const cells = APPS.map(({ name }) => padded(by.get(name)?.passed ?? 0, name))
    const held = [...by].filter(([, { heldBack }]) => heldBack > 0)
    const why = held.map(([app, { heldBack }]) => `${number(heldBack)} of ${app}`).join(', ')
    const text = shortened(why, HELD_WIDTH)
    const line = `${time}  ${cells.join('  ')}  ${number(read).padStart(LOG_WIDTH)}  ${text}`.trimEnd()
    return `${this.#lines++ % HEAD_EVERY === 0 ? this.#head() : ''}${line}\n`
  }

  #head(): string {
    const apps = APPS.map(({ name }) => padded(name, name)).join('  ')
    return `${'passed'.padEnd(8)}  ${apps}  ${this.#log.padStart(LOG_WIDTH)}  held back: over ${LIMIT}/s\n`
  }

  #advance(): { readonly by: ReadonlyMap<string, Sum>; readonly read: number } {
    const by = new Map<string, Sum>()
    for (const { key, passed, discarded } of this.#watch?.end(MOST_KEYS).keys ?? []) {
      const app = key ?? '(none)'
      const sum = this.#sums.get(app) ?? { passed: 0, heldBack: 0 }
      this.#sums.set(app, sum)
      sum.passed += passed
      sum.heldBack += discarded
      by.set(app, { passed, heldBack: discarded })
    }
    this.#watch = this.#counts.watch()
    const before = this.#read
    this.#read = this.#counts.read()
    return { by, read: this.#read - before }
  }

  /** The whole run as a table. */
  summary(ms: number, { delivered, undelivered }: Totals, receiver: string, config: string): string {
    this.#advance()
    const row = (name: string, passed: string, heldBack: string, why = '') =>
      `  ${name.padEnd(LOG_WIDTH)}  ${passed.padStart(10)}  ${heldBack.padStart(10)}  ${why}`.trimEnd()
    const sent = Object.values(delivered).reduce((sum, events) => sum + events, 0)
    return [
      '',
      `Ended after ${formatDuration(ms)}.`,
      row('', 'passed', 'held back'),
      ...[...this.#sums].map(([app, { passed, heldBack }]) =>
        row(app, number(passed), number(heldBack), heldBack > 0 ? `over ${LIMIT} events per second` : ''),
      ),
      row(this.#log, number(this.#read), '0', 'not limited'),
      `Delivered: ${number(sent)} events to ${receiver}${undelivered > 0 ? `; ${number(undelivered)} not yet` : ''}.`,
      `To continue, copy ${config}, change the copy, and run:`,
      '  sluice run --config FILE',
    ]
      .map(line => `${line}\n`)
      .join('')
  }
}

const number = (value: number) => value.toLocaleString('en-US')

const padded = (value: number | string, app: string) =>
  (typeof value === 'number' ? number(value) : value).padStart(Math.max(5, app.length))

const shortened = (text: string, width: number) => (text.length > width ? `${text.slice(0, width - 1)}…` : text)
