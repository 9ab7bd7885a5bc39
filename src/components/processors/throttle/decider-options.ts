import { createHash } from 'node:crypto'
import { compileBatchTest, compileCondition } from '../../../core/condition/condition.js'
import { conditionText } from '../../../core/condition/condition-text.js'
import type { FieldPath } from '../../../core/event/field-path.js'
import type { FieldReader } from '../../../core/event/field-reader.js'
import { randomSeed } from '../../throttle/buckets/key-table.js'
import type { DeciderOptions } from '../../throttle/decider-options.js'
import { AutoTime } from '../../throttle/event/auto-time.js'
import { NamedTime } from '../../throttle/event/time.js'
import type { Rule } from '../../throttle/rules/rule.js'
import {
  LATENESS,
  limitsOf,
  merged,
  patternOf,
  type RuledOptions,
  type RuleOptions,
  type ThrottleConfig,
} from './options.js'

/** Converts the component's options to decider options. `ofFile`: the rules in the file, if `limits_file` is set. */
export function deciderOptions(
  options: Omit<ThrottleConfig, 'limits_file' | 'persist'>,
  context: { field(path: FieldPath): FieldReader },
  ofFile?: readonly RuleOptions[],
): DeciderOptions {
  const field = (path: FieldPath) => context.field(path)
  const { exclude } = options
  const hasRules = options.limits !== undefined || ofFile !== undefined
  return {
    limits: limitsOf(options),
    maxKeys: options.max_keys,
    onMaxKeys: options.on_max_keys,
    exclude: exclude && Object.assign(compileCondition(exclude, field), { all: compileBatchTest(exclude, field) }),
    keyFields: options.key_field.map(field),
    costField: options.cost && field(options.cost),
    eventTime: options.time_field && {
      time: options.time_field === 'auto' ? new AutoTime(context) : new NamedTime(field(options.time_field)),
      latenessMs: options.allowed_lateness ?? LATENESS.allowed_lateness,
      onLate: options.on_late ?? LATENESS.on_late,
    },
    seed: randomSeed(),
    rules: hasRules ? rulesOf(options, ofFile ?? [], field) : undefined,
  }
}

/**
 * Compiles the rules of a throttle: first the rules in its options, then the rules in its file. `field` creates field
 * readers.
 */
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
  /** Returns the number of earlier rules with the same text. */
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
