import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import type { z } from 'zod'
import { ConfigError, errorText, type FileProblem, type Problem } from '../../../../core/errors.js'
import { openWithin, type Reach } from '../../../../core/options/reach.js'
import { notWhole } from '../../../../lib/files/read-regular.js'
import { readFileSync, statSync } from '../../../../lib/files/remote/guarded-fs.js'
import { NearestName } from '../../../../lib/nearest.js'
import {
  MOST_RULES,
  neverHolds,
  type RuledOptions,
  type RuleOptions,
  ruleProblems,
  ruleSchema,
  uselessRules,
} from '../options.js'
import { readCsv, readYamlRules, type Written, type WrittenProblem } from './written-rules.js'

/** Reads the rules of `limits_file`. */

const LARGEST_FILE = 8 * 1024 * 1024
/** More problems are not reported. */
const MOST_PROBLEMS = 20

export interface LimitsProblem extends WrittenProblem {
  readonly file: string
  /** Whether the file could not be read at all. */
  readonly isMissing?: boolean
}

/** The rules of a file, and which of them never hold. */
export interface FileRules {
  readonly rules: readonly RuleOptions[]
  readonly warnings: readonly LimitsProblem[]
}

/** The rules, or why they cannot be used. */
export type ReadLimits = FileRules | { readonly problems: readonly LimitsProblem[] }

/** Throws ConfigError if the rules cannot be used. */
export function usableRules(read: ReadLimits): FileRules {
  if ('problems' in read) throw new ConfigError(read.problems.map(problemOf))
  return read
}

export function problemOf({ file, line, path, message }: LimitsProblem): Problem {
  return { file, line, column: 1, path: pathText(path), message }
}

/** The options of a throttle with the rules of its file among its own. Throws ConfigError. */
export function withFileRules<O extends RuledOptions & { readonly limits_file?: string | undefined }>(options: O): O {
  const { limits_file: path, limits = [] } = options
  if (path === undefined) return options
  const { rules } = usableRules(readLimitsSync(path, options))
  return { ...options, limits: [...limits, ...rules], limits_file: undefined }
}

/** Reads the file at `path` for a throttle with these options, within the limits of its component. */
export async function readLimits(path: string, options: RuledOptions, reach: Reach | undefined): Promise<ReadLimits> {
  try {
    const file = await openWithin(reach, path, constants.O_RDONLY)
    try {
      const wrong = notWhole(await file.stat(), LARGEST_FILE)
      return wrong ? failed(path, wrong) : parseLimits(path, await file.readFile(), options)
    } finally {
      await file.close()
    }
  } catch (error) {
    return missing(path, error)
  }
}

/** Like `readLimits`, at once and without limits: for commands that have no daemon around them. */
export function readLimitsSync(path: string, options: RuledOptions): ReadLimits {
  try {
    const wrong = notWhole(statSync(path), LARGEST_FILE)
    return wrong ? failed(path, wrong) : parseLimits(path, readFileSync(path), options)
  } catch (error) {
    return missing(path, error)
  }
}

/** What is wrong with the limits file of a throttle, or else which of its rules never hold. */
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

/** Reads the rules in the bytes of a file. */
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

/** Warns of rules that never hold, behind others of the file or those of the options, which come first. */
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

/** `[3].limit`, as lists are numbered in the configuration. */
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
