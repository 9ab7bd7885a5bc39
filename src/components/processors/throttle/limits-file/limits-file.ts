import type { Logger } from 'pino'
import type { ComponentContext } from '../../../../core/component.js'
import { formatProblem } from '../../../../core/errors.js'
import { WatchedFile } from '../../../../core/watched-file.js'
import type { TimerClock } from '../../../../lib/time.js'
import type { RuledOptions, RuleOptions } from '../options.js'
import { type FileRules, problemOf, type ReadLimits, readLimits, usableRules } from './read-limits.js'

/** Called with the rules whenever they change. */
type Apply = (rules: readonly RuleOptions[]) => void

/** The rules in a file, which is read again when it changes. While it cannot be used, the rules read last are. */
export class LimitsFile {
  /** Whether the rules are those of the file. */
  isValid = true
  rules: readonly RuleOptions[] = []
  /** When they were read, by the wall clock. */
  readAt = 0
  readonly #file: WatchedFile<ReadLimits>
  readonly #log: Logger
  readonly #clock: TimerClock

  /** Reads the file. Throws ConfigError if it cannot be used. */
  static async open(path: string, options: RuledOptions, context: ComponentContext): Promise<LimitsFile> {
    const file = new LimitsFile(path, options, context)
    file.#take(usableRules(await file.#file.first()))
    return file
  }

  private constructor(path: string, options: RuledOptions, { log, clock, reach }: ComponentContext) {
    this.#file = new WatchedFile(path, clock, () => readLimits(path, options, reach))
    this.#log = log
    this.#clock = clock
  }

  /** Looks at the file every second until `stop`. */
  watch(apply: Apply): void {
    this.#file.watch(read => this.#use(read, apply))
  }

  stop(): void {
    this.#file.stop()
  }

  #use(read: ReadLimits, apply: Apply): void {
    this.isValid = 'rules' in read
    if ('problems' in read) {
      const error = read.problems.map(problem => formatProblem(problemOf(problem))).join('\n')
      this.#log.warn({ error }, 'the limits file cannot be used; keeping the rules that were read last')
      return
    }
    this.#log.info({ file: this.#file.path, rules: read.rules.length }, 'limits file read again')
    this.#take(read)
    apply(read.rules)
  }

  #take({ rules, warnings }: FileRules): void {
    this.rules = rules
    this.readAt = this.#clock.wall()
    for (const warning of warnings)
      this.#log.warn({ place: formatProblem(problemOf(warning)) }, 'configuration warning')
  }
}
