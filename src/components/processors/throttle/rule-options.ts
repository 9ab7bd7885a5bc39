import { createHash } from 'node:crypto'
import { z } from 'zod'
import { compileCondition, condition } from '../../../core/condition/condition.js'
import { conditionText } from '../../../core/condition/condition-text.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { refuseAt } from '../../../core/options/options.js'
import { filePath, reaches } from '../../../core/options/reach.js'
import { KeyPattern, KeyPatternError } from '../../throttle/key-pattern.js'
import type { Rule } from '../../throttle/rules.js'
import { checkLimits, type LimitOptions, limitOptions, limitsOf, type ScopedLimits } from './limit-options.js'

/** The options that make limits differ by key or condition. */

export const MOST_RULES = 10_000

const { limit, window_mode, ...others } = limitOptions
const LIMIT = 'must be a whole number from 1 to 4294967295, or unlimited'

export const ruleSchema = z.strictObject({
  when: condition().optional().describe('The events for which the rule holds.'),
  key: reaches('nothing', z.string())
    .optional()
    .describe(
      'Pattern of the buckets for which the rule holds: `*` stands for any characters, `?` for one, `[a-z]` for one of a set, `{a,b}` for alternatives; `\\` takes the next character literally. With several fields in `key_field`, a `[` at the beginning is that of the JSON array. Events without a key match no pattern.',
    ),
  limit: z
    .union([limit.unwrap(), z.literal('unlimited')], { error: LIMIT })
    .optional()
    .describe('As above; `unlimited` lets all events pass.'),
  window_mode: window_mode.unwrap().optional().describe('As above.'),
  ...others,
})
export type RuleOptions = z.output<typeof ruleSchema>

export const ruleOptions = {
  limits: z
    .array(ruleSchema)
    .min(1)
    .max(MOST_RULES)
    .optional()
    .describe(
      'Rules for some of the events, by condition (`when`), bucket (`key`) or both. The first that holds for an event replaces the options that it names; the others apply as above. Each rule has buckets of its own.',
    ),
  limits_file: filePath()
    .optional()
    .describe(
      'File with such rules, which come after those of `limits`: a list in YAML, or CSV with a header of option names if its name ends with `.csv`. It is read again when it changes; if it is broken then, the rules that were read last stay in use.',
    ),
}

/** The options of a throttle that matter for its rules. */
export type RuledOptions = ScopedLimits & {
  readonly key_field: readonly FieldPath[]
  readonly limits?: readonly RuleOptions[] | undefined
}

export interface RuleProblem {
  /** Within the rule; empty for the rule as a whole. */
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** Adds an issue for each rule that cannot be used. */
export function checkRules(options: RuledOptions, context: z.RefinementCtx): void {
  if (!hasSoundLimits(options)) return
  for (const [n, rule] of (options.limits ?? []).entries()) {
    for (const { path, message } of ruleProblems(rule, options)) {
      refuseAt(context, ['limits', n, ...path] as string[], message)
    }
  }
}

/** Whether the limits of the throttle itself fit together. Otherwise their problems would be repeated for each rule. */
export function hasSoundLimits(options: RuledOptions): boolean {
  return problemsOf(options).length === 0
}

/** What is wrong with a rule of a throttle with sound limits. */
export function ruleProblems(rule: RuleOptions, options: RuledOptions): readonly RuleProblem[] {
  const { when, key, limit, ...named } = rule
  const problems: RuleProblem[] = []
  if (when === undefined && key === undefined) problems.push({ path: [], message: 'needs when or key, or both' })
  if (key !== undefined) {
    const message = options.key_field.length === 0 ? 'has no effect without key_field' : patternProblem(key, options)
    if (message) problems.push({ path: ['key'], message })
  }
  if (limit !== 'unlimited') return [...problems, ...problemsOf(merged(options, rule))]
  const useless = Object.entries(named).filter(([, value]) => value !== undefined)
  return [...problems, ...useless.map(([name]) => ({ path: [name], message: 'has no effect with limit: unlimited' }))]
}

function problemsOf(options: ScopedLimits): RuleProblem[] {
  const problems: RuleProblem[] = []
  const addIssue = ({ path, message }: { path?: (string | number)[]; message: string }) =>
    problems.push({ path: path ?? [], message })
  checkLimits(options, { addIssue } as unknown as z.RefinementCtx)
  return problems
}

function patternProblem(key: string, options: RuledOptions): string | undefined {
  try {
    patternOf(key, options)
    return undefined
  } catch (error) {
    if (!(error instanceof KeyPatternError)) throw error
    return error.message
  }
}

const patternOf = (key: string, { key_field }: RuledOptions) => new KeyPattern(key, key_field.length > 1)

/** The options of a throttle with those of a rule in their place. */
export function merged<O extends LimitOptions>(options: O, { when, key, ...named }: RuleOptions): O {
  const given = Object.entries(named).filter(([, value]) => value !== undefined && value !== 'unlimited')
  // A burst belongs to gcra, and does not go with another mode.
  const burst = named.window_mode === undefined || named.window_mode === 'gcra' ? options.burst : undefined
  return { ...options, burst, ...Object.fromEntries(given) }
}

/** Compiles the rules of a throttle: those of its options, then those of its file. `field` creates readers. */
export function rulesOf(
  options: RuledOptions,
  ofFile: readonly RuleOptions[],
  field: (path: FieldPath) => FieldReader,
): Rule[] {
  const readers = new Map<string, FieldReader>()
  const readerOf = (path: FieldPath) => {
    const reader = readers.get(path.text) ?? field(path)
    readers.set(path.text, reader)
    return reader
  }
  const seen = new Map<string, number>()
  /** How many there were before it. */
  const count = (text: string) => {
    const before = seen.get(text) ?? 0
    seen.set(text, before + 1)
    return before
  }
  const compile = (list: Rule['name']['list']) => (rule: RuleOptions, n: number) => {
    const { when, key, limit } = rule
    const of = merged(options, rule)
    const condition = when && `if (${conditionText(when)})`
    const limits = limit === 'unlimited' ? [] : limitsOf(of)
    const same = JSON.stringify([key, condition, limits, of.cost?.text])
    const matched = JSON.stringify([key, condition])
    const shared = `${count(matched)} ${matched}`
    return {
      id: `${count(same)} ${same}`,
      get sharedName() {
        return digest(shared)
      },
      name: { list, place: n + 1, text: [key && `key ${key}`, condition].filter(Boolean).join(' and ') },
      when: when && compileCondition(when, readerOf),
      key: key === undefined ? undefined : patternOf(key, options),
      limits,
      costField: of.cost && readerOf(of.cost),
    }
  }
  return [...(options.limits ?? []).map(compile('limits')), ...ofFile.map(compile('limits_file'))]
}

/** A short name that is practically unique. */
const digest = (text: string) => createHash('sha256').update(text).digest('base64url').slice(0, 16)
