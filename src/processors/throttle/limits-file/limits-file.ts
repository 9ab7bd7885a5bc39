import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import type { ComponentContext } from '../../../core/component.js'
import { errorCode, formatProblem } from '../../../core/errors.js'
import type { Reach } from '../../../core/options/reach.js'
import { fileSystems } from '../../../lib/files/remote/file-systems.js'
import type { TimerClock } from '../../../lib/time.js'
import type { RuledOptions, RuleOptions } from '../rule-options.js'
import { problemOf, readLimits, usableRules } from './read-limits.js'

const LOOK_EVERY_MS = 1000

/** Called with the rules whenever they change. */
type Apply = (rules: readonly RuleOptions[]) => void

/**
 * The rules in a file, which is read again when it changes. While it cannot be used, the rules that were read last stay
 * in use. A change is read when the file stayed the same from one look to the next, so that one that is being written
 * is not read half.
 */
export class LimitsFile {
  /** Whether the rules are those of the file. */
  isValid = true
  rules: readonly RuleOptions[] = []
  /** When they were read, by the wall clock. */
  readAt = 0
  readonly #path: string
  readonly #options: RuledOptions
  readonly #log: Logger
  readonly #clock: TimerClock
  readonly #reach: Reach | undefined
  /** What was read last, and what was there at the last look. */
  #version = ''
  #seen = ''
  #isStopped = false
  #cancel: (() => void) | undefined

  /** Reads the file. Throws ConfigError if it cannot be used. */
  static async open(path: string, options: RuledOptions, context: ComponentContext): Promise<LimitsFile> {
    const file = new LimitsFile(path, options, context)
    file.#version = file.#seen = await file.#look()
    file.rules = usableRules(await readLimits(path, options, context.reach))
    file.readAt = context.clock.wall()
    return file
  }

  private constructor(path: string, options: RuledOptions, { log, clock, reach }: ComponentContext) {
    this.#path = path
    this.#options = options
    this.#log = log
    this.#clock = clock
    this.#reach = reach
  }

  /** Looks at the file every second until `stop`. */
  watch(apply: Apply): void {
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => {
      void this.#check(apply).finally(() => {
        if (!this.#isStopped) this.watch(apply)
      })
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
  }

  async #check(apply: Apply): Promise<void> {
    const before = this.#seen
    this.#seen = await this.#look()
    if (this.#seen === this.#version || this.#seen !== before) return
    const read = await readLimits(this.#path, this.#options, this.#reach)
    if (this.#isStopped || (await this.#look()) !== this.#seen) return
    this.#version = this.#seen
    this.isValid = 'rules' in read
    if ('problems' in read) {
      const error = read.problems.map(problem => formatProblem(problemOf(problem))).join('\n')
      this.#log.warn({ error }, 'the limits file cannot be used; keeping the rules that were read last')
      return
    }
    this.rules = read.rules
    this.readAt = this.#clock.wall()
    this.#log.info({ file: this.#path, rules: read.rules.length }, 'limits file read again')
    apply(read.rules)
  }

  /** A text that changes when the file is written or replaced. */
  async #look(): Promise<string> {
    const path = this.#path
    try {
      const found = await fileSystems.runInTime(path, () => stat(path, { bigint: true }))
      return `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`
    } catch (error) {
      return String(errorCode(error))
    }
  }
}
