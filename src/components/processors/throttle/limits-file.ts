import { isUtf8 } from 'node:buffer'
import type { Logger } from 'pino'
import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import type { z } from 'zod'
import type { ComponentContext } from '../../../core/component.js'
import { ConfigError, errorText, type FileProblem, formatProblem, type Problem } from '../../../core/errors.js'
import { type Reach, readWithin } from '../../../core/options/reach.js'
import { WatchedFile } from '../../../core/watched-file.js'
import { readFileSync, statSync } from '../../../lib/files/disk/disk.js'
import { notWhole } from '../../../lib/files/read-regular.js'
import { readCsvTable } from '../../../lib/formats/csv-text.js'
import { tooDeepAt } from '../../../lib/formats/yaml-depth.js'
import { NearestName } from '../../../lib/nearest.js'
import { atOnce } from '../../../lib/steps.js'
import type { TimerClock } from '../../../lib/time.js'
import { MOST_RULES, type RuledOptions, type RuleOptions, ruleProblems, ruleSchema } from './options.js'
import { neverHolds, uselessRules } from './warnings.js'

type Apply = (rules: readonly RuleOptions[]) => void

/**
 * The rules in a file. The file is read again when it changes. While it is invalid, the last valid rules stay in use.
 */
export class LimitsFile {
  /** Whether the rules come from the current version of the file. */
  isValid = true
  rules: readonly RuleOptions[] = []
  readAt = 0
  readonly #file: WatchedFile<ReadLimits>
  readonly #log: Logger
  readonly #clock: TimerClock

  /** Reads the file. Throws ConfigError if the file cannot be used. */
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

  /** Checks the file every second until `stop` is called. */
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

const LARGEST_FILE = 8 * 1024 * 1024
const MOST_PROBLEMS = 20

interface LimitsProblem extends WrittenProblem {
  readonly file: string
  readonly isMissing?: boolean
}

interface FileRules {
  readonly rules: readonly RuleOptions[]
  readonly warnings: readonly LimitsProblem[]
}

type ReadLimits = FileRules | { readonly problems: readonly LimitsProblem[] }

function usableRules(read: ReadLimits): FileRules {
  if ('problems' in read) throw new ConfigError(read.problems.map(problemOf))
  return read
}

function problemOf({ file, line, path, message }: LimitsProblem): Problem {
  return { file, line, column: 1, path: pathText(path), message }
}

/** Returns a throttle's options, with the rules of its limits file after those in the options. Throws ConfigError. */
export function withFileRules<O extends RuledOptions & { readonly limits_file?: string | undefined }>(options: O): O {
  const { limits_file: path, limits = [] } = options
  if (path === undefined) return options
  const { rules } = usableRules(readLimitsSync(path, options))
  return { ...options, limits: [...limits, ...rules], limits_file: undefined }
}

/** Reads the file at `path` for a throttle with these options. `reach` limits which files may be read. */
async function readLimits(path: string, options: RuledOptions, reach: Reach | undefined): Promise<ReadLimits> {
  try {
    const { bytes } = await readWithin(reach, path, stats => {
      const wrong = notWhole(stats, LARGEST_FILE)
      return wrong === undefined ? undefined : new NotWhole(wrong)
    })
    return parseLimits(path, bytes, options)
  } catch (error) {
    return error instanceof NotWhole ? failed(path, error.message) : missing(path, error)
  }
}

/** The file cannot be read whole. The message is a result of `notWhole`. */
class NotWhole extends Error {}

/** Like `readLimits`, but synchronous and without `reach`, for commands that run without a daemon. */
export function readLimitsSync(path: string, options: RuledOptions): ReadLimits {
  try {
    const wrong = notWhole(statSync(path), LARGEST_FILE)
    return wrong ? failed(path, wrong) : parseLimits(path, readFileSync(path), options)
  } catch (error) {
    return missing(path, error)
  }
}

/** The problems of a limits file. If the file is valid, warnings about rules that never hold. */
export function fileProblems(options: RuledOptions & { readonly limits_file?: string | undefined }): FileProblem[] {
  if (options.limits_file === undefined) return []
  const read = readLimitsSync(options.limits_file, options)
  const [found, isWarning] = 'problems' in read ? [read.problems, false] : [read.warnings, true]
  return found.map(one => ({ ...one, option: 'limits_file', path: one.path as FileProblem['path'], isWarning }))
}

function failed(file: string, message: string): ReadLimits {
  return { problems: [{ file, line: 1, path: [], message }] }
}

function missing(file: string, error: unknown): ReadLimits {
  return { problems: [{ file, line: 1, path: [], message: `cannot be read: ${errorText(error)}`, isMissing: true }] }
}

export function parseLimits(file: string, bytes: Buffer, options: RuledOptions): ReadLimits {
  if (bytes.length > LARGEST_FILE)
    return failed(file, notWhole({ isFile: () => true, isDirectory: () => false, size: bytes.length }, LARGEST_FILE)!)
  if (!isUtf8(bytes)) return failed(file, 'is not valid UTF-8')
  const text = bytes.toString().replace(/^\uFEFF/, '')
  const read = /\.csv$/i.test(file) ? readCsv(text) : readYamlRules(text)
  const problems: LimitsProblem[] = []
  const add = (line: number, path: readonly PropertyKey[], message: string) =>
    problems.push({ file, line, path, message })
  if ('problems' in read) {
    for (const { line, path, message } of read.problems) add(line, path, message)
    return { problems }
  }
  if (read.rules.length > MOST_RULES)
    return failed(file, `has ${read.rules.length} rules; at most ${MOST_RULES} can be used`)
  const rules: RuleOptions[] = []
  const nearest = new NearestName()
  for (const [n, written] of read.rules.entries()) {
    const rule = check(written, options, nearest, (path, message) => add(written.lineOf(path), [n, ...path], message))
    if (rule) rules.push(rule)
    if (problems.length >= MOST_PROBLEMS) break
  }
  if (problems.length > 0) return { problems }
  return { rules, warnings: warningsOf(file, rules, read.rules, options) }
}

/** Warns of rules in the file that never hold because of earlier rules. All rules in the options are earlier. */
function warningsOf(
  file: string,
  rules: readonly RuleOptions[],
  written: readonly Written[],
  { limits = [] }: RuledOptions,
): LimitsProblem[] {
  const own = limits.length
  const useless = uselessRules([...limits, ...rules]).filter(({ rule }) => rule >= own)
  return useless.slice(0, MOST_PROBLEMS).map(({ rule, first }) => {
    const message =
      first < own
        ? neverHolds(`limits[${first}] of the throttle`, 'remove one of the two')
        : neverHolds(`[${first - own}] in line ${written[first - own]!.lineOf([])}`)
    return { file, line: written[rule - own]!.lineOf([]), path: [rule - own], message }
  })
}

/** Formats a path as the configuration does: `[3].limit`. */
function pathText(path: readonly PropertyKey[]): string {
  return path.map((step, n) => (typeof step === 'number' ? `[${step}]` : `${n > 0 ? '.' : ''}${String(step)}`)).join('')
}

type Add = (path: readonly PropertyKey[], message: string) => void

function check({ value }: Written, options: RuledOptions, nearest: NearestName, add: Add): RuleOptions | undefined {
  const parsed = ruleSchema.safeParse(value)
  if (!parsed.success) {
    for (const issue of parsed.error.issues) explain(issue, nearest, add)
    return undefined
  }
  const found = ruleProblems(parsed.data, options)
  for (const { path, message } of found) add(path, message)
  return found.length > 0 ? undefined : parsed.data
}

function explain(issue: z.core.$ZodIssue, nearest: NearestName, add: Add): void {
  if (issue.code !== 'unrecognized_keys') {
    add(
      issue.path,
      issue.path.length === 0 ? 'must be a rule, such as { key: "batch-*", limit: 10 }' : lower(issue.message),
    )
    return
  }
  const known = issue.path.length === 0 ? Object.keys(ruleSchema.shape) : []
  for (const key of issue.keys) {
    const near = nearest.find(key, known)
    add([...issue.path, key], `unknown option${near ? `; did you mean "${near}"?` : ''}`)
  }
}

const lower = (text: string) =>
  text.replace(/^Invalid input: expected/, 'must be').replace(/^Too (small|big): expected \w+ to be/, 'must be')

// Rules of a file, before they are checked.

interface Written {
  readonly value: unknown
  /** The line (from 1) of the value at a path in the rule. If this value is missing, the line of the nearest value. */
  readonly lineOf: (path: readonly PropertyKey[]) => number
}

interface WrittenProblem {
  readonly line: number
  /** The path in the list of rules. Its first element is the index of the rule. */
  readonly path: readonly PropertyKey[]
  readonly message: string
}

type WrittenRules = { readonly rules: readonly Written[] } | { readonly problems: readonly WrittenProblem[] }

/** Options whose values are converted to numbers if the values consist of digits. */
const NUMBERS = new Set(['limit', 'limit_bytes', 'burst'])
const WHOLE = /^\d+$/

/** Reads CSV. The first record names the options. Each later record is a rule. */
function readCsv(text: string): WrittenRules {
  const read = atOnce(readCsvTable(text))
  if ('message' in read) {
    const { line, record, message } = read
    return { problems: [{ line, path: record === undefined ? [] : [record], message }] }
  }
  const rules = read.records.map(({ line, fields }) => {
    const given = read.names.flatMap((name, n): [string, unknown][] => {
      const value = fields[n]!
      if (value === '') return []
      return [[name, NUMBERS.has(name) && WHOLE.test(value) ? Number(value) : value]]
    })
    return { value: Object.fromEntries(given), lineOf: () => line }
  })
  return { rules }
}

const NO_LIST = 'must be a list of rules, such as: - { key: "batch-*", limit: 10 }'
/** Maximum number of values that aliases may expand to. */
const MOST_ALIASES = 100_000

function readYamlRules(text: string): WrittenRules {
  const lines = new LineCounter()
  const deep = tooDeepAt(text)
  if (deep !== undefined) {
    const line = text.slice(0, deep).split('\n').length
    return { problems: [{ line, path: [], message: 'must not be nested this deeply' }] }
  }
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, logLevel: 'error' })
  const lineAt = (offset: number | undefined) => (offset === undefined ? 1 : lines.linePos(offset).line)
  if (document.errors.length > 0) {
    const problems = document.errors.map(({ pos, message }) => ({ line: lineAt(pos[0]), path: [], message }))
    return { problems: problems.slice(0, 10) }
  }
  const { contents } = document
  if (!isSeq(contents)) return { problems: [{ line: lineAt(contents?.range?.[0]), path: [], message: NO_LIST }] }
  try {
    // All values are converted in one call, because each call searches the whole document for anchors.
    const values = contents.toJS(document, { maxAliasCount: MOST_ALIASES }) as unknown[]
    const rules = contents.items.map((item, n): Written => {
      return { value: values[n], lineOf: path => lineAt(offsetOf(item as Node, path)) }
    })
    return { rules }
  } catch (error) {
    return { problems: [{ line: 1, path: [], message: (error as Error).message }] }
  }
}

/** The offset of the value at `path`. If it does not exist, the offset of the nearest value. */
function offsetOf(node: Node, path: readonly PropertyKey[]): number | undefined {
  const [step, ...rest] = path
  if (step === undefined) return node.range?.[0]
  if (isMap(node)) {
    const pair = node.items.find(({ key }) => isScalar(key) && key.value === step)
    if (pair && isNode(pair.value) && rest.length > 0) return offsetOf(pair.value, rest)
    if (pair) return (pair.key as Node).range?.[0]
  } else if (isSeq(node) && typeof step === 'number' && isNode(node.items[step])) {
    return offsetOf(node.items[step] as Node, rest)
  }
  return node.range?.[0]
}
