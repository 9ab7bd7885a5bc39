import { z } from 'zod'
import type { NearestName } from '../../../lib/nearest.js'
import { shapeOf } from '../schema.js'
import { plainValue, reveals } from '../yaml/environment.js'
import { type ConfigNode, type ConfigPlace, locate, placeOf, type ScalarNode } from '../yaml/node.js'
import type { Path } from '../yaml/path.js'
import type { Problems } from '../yaml/problems.js'
import { knownElsewhere, noteOn } from './foreign-names.js'

/** Turns the issues that a schema reports into sentences, each with its place in the file. */

/** Has no message unless the schema provides one. Until the Explainer completes it, it may lack `path`. */
export type Issue = z.core.$ZodIssue

export type Checked<T> = { readonly value: T } | { readonly issues: readonly Issue[] }

type UnknownKeys = z.core.$ZodIssueUnrecognizedKeys & { readonly known?: readonly string[] }

/** A configuration is parsed rarely, so compiling a parser for each schema would take longer than it saves. */
const CONTEXT = { error: annotate, jitless: true, async: false }

/** Parses `value` with `schema`. Like `safeParse`, but the Explainer completes the issues, and only those it reports. */
export function check<T>(schema: z.ZodType<T>, value: unknown): Checked<T> {
  const { issues, value: parsed } = schema._zod.run({ value, issues: [] }, CONTEXT) as z.core.ParsePayload<T>
  return issues.length === 0 ? { value: parsed } : { issues: issues as unknown as Issue[] }
}

/** Adds facts from the schema: known keys, and whether a number must be whole. The final issue keeps these facts. */
function annotate(issue: z.core.$ZodRawIssue): string {
  const schema = issue.inst as z.core.$ZodType | undefined
  const shape = issue.code === 'unrecognized_keys' && schema ? shapeOf(schema) : undefined
  if (shape) Object.assign(issue, { known: Object.keys(shape) })
  const format = (schema?._zod.def as { format?: string } | undefined)?.format ?? schema?._zod.bag?.format
  const whole = issue.code === 'invalid_type' && issue.expected === 'number' && String(format).includes('int')
  if (whole) Object.assign(issue, { expected: 'int' })
  return ''
}

export interface DiagnosedValue {
  readonly node: ConfigNode
  readonly path: Path
  readonly key: ConfigPlace | undefined
}

export class Explainer {
  readonly #problems: Problems
  readonly #nearest: NearestName

  constructor(problems: Problems, nearest: NearestName) {
    this.#problems = problems
    this.#nearest = nearest
  }

  /** The candidate that `name` probably means: the one that another program calls `name`, or else the most similar. */
  meant(name: string, candidates: readonly string[]): string | undefined {
    return knownElsewhere(name, candidates) ?? this.#nearest.find(name, candidates)
  }

  /** Returns `; did you mean "x"?` if `name` probably means a candidate; otherwise an empty string. */
  suggestion(name: string, candidates: readonly string[]): string {
    const near = this.meant(name, candidates)
    return near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`
  }

  /** Reports the issues. `unknown` describes an unknown key at the subject's top level. */
  explain(
    issues: readonly Issue[],
    subject: DiagnosedValue,
    unknown?: (key: string, known: readonly string[]) => string,
  ): void {
    const report = (issue: Issue, base: Path): void => {
      const path = [...base, ...issue.path.map(step => (typeof step === 'number' ? step : String(step)))]
      if (issue.code === 'unrecognized_keys') {
        const { known = [] } = issue as UnknownKeys
        for (const key of issue.keys) {
          const describe = path.length === 0 && unknown ? unknown : this.unknownOption.bind(this)
          this.#reportKey(subject, [...path, key], describe(key, known))
        }
        return
      }
      if (issue.code === 'invalid_key') {
        const why = issue.issues[0]
        this.#reportKey(subject, path, `is not a possible name here${why?.message ? `: ${why.message}` : ''}`)
        return
      }
      if (issue.code === 'invalid_union') {
        const { node } = locate(subject.node, path, subject.key)
        // A message that the schema itself provides is kept, because this message also names the other variants.
        const words = node?.kind === 'scalar' && !issue.message ? wordsBranch(issue.errors) : undefined
        const branch = nearestBranch(issue.errors) ?? words
        if (branch) {
          for (const inner of branch) report(inner, path)
          return
        }
      }
      this.#reportValue(subject, path, issue)
    }
    this.#problems.expect(
      issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0),
    )
    for (const issue of issues) report(z.core.util.finalizeIssue(issue as never, CONTEXT, z.core.config()), [])
  }

  unknownOption(key: string, known: readonly string[]): string {
    const note = noteOn(key, known)
    if (note !== undefined) return `unknown option; ${note}`
    const suggestion = this.suggestion(key, known)
    if (suggestion || known.length === 0) return `unknown option${suggestion}`
    return `unknown option; known are ${known.join(', ')}`
  }

  #reportKey(subject: DiagnosedValue, path: Path, message: string): void {
    const { key, nearest } = locate(subject.node, path, subject.key)
    this.#problems.add(key ?? nearest, [...subject.path, ...path], message)
  }

  #reportValue(subject: DiagnosedValue, path: Path, issue: Issue): void {
    const located = locate(subject.node, path, subject.key)
    const { node } = located
    if (node?.kind === 'scalar' && node.broken) return
    this.#problems.add(placeOf(located), [...subject.path, ...path], this.#sentence(issue, node))
  }

  #sentence(issue: Issue, node: ConfigNode | undefined): string {
    const must = issue.message || requirement(issue)
    if (!node) return issue.code === 'custom' ? must : `is missing${missingText(must)}`
    if (node.kind === 'scalar' && node.value === null) return `has no value${missingText(must)}`
    const params = issue.code === 'custom' ? issue.params : undefined
    if (params?.constant === true)
      return params.show && node.kind === 'scalar' ? `${must}, not ${scalarText(node)}` : must
    if (issue.message && reveals(must, environmentValues(node)) && typeof params?.general === 'string')
      return `${params.general}, not ${scalarText(node)}`
    if (issue.message && reveals(must, environmentValues(node)))
      return `${scalarText(node) ?? 'the value from the environment'} is not valid here`
    if (issue.message) return must
    const values =
      issue.code === 'invalid_value' ? issue.values : issue.code === 'invalid_union' ? issueOptions(issue) : undefined
    if (values && node.kind === 'scalar') {
      const text = typeof node.value === 'string' ? this.suggestion(node.value, values.map(String)) : ''
      return `${must}, not ${scalarText(node)}${text}`
    }
    return issue.code === 'invalid_type' || issue.code === 'invalid_union'
      ? `${must}, not ${kindOf(node, issue)}`
      : must
  }
}

/** Turns the requirement into the end of a sentence that begins with `is missing` or `has no value`. */
function missingText(must: string): string {
  return must.startsWith('must ') ? `; it ${must}` : `; ${must}`
}

/** The branch that was probably meant: of those that accept this kind of value, the one with the fewest faults. */
export function nearestBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  let best: readonly Issue[] | undefined
  for (const branch of branches) {
    const otherKind = branch.some(
      ({ code, path }) => path.length === 0 && (code === 'invalid_type' || code === 'invalid_value'),
    )
    if (!otherKind && branch.length > 0 && (!best || faults(branch) < faults(best))) best = branch
  }
  return best
}

function wordsBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  return branches.find(([issue]) => issue?.code === 'invalid_value' && issue.values.length > 1)
}

/** Counts faults. A wrong literal counts as 100, since literals distinguish the variants of a mapping. */
function faults(branch: readonly Issue[]): number {
  return branch.reduce((sum, { code }) => sum + (code === 'invalid_value' ? 100 : 1), 0)
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list, as in [a, b]',
  tuple: 'a list',
  object: 'a mapping of options',
  record: 'a mapping',
  null: 'empty',
}

/** The requirement for the value, as in "must be a whole number". */
function requirement(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPES[issue.expected] ?? issue.expected}`
    case 'too_small':
      return limit(issue.origin, 'least', Number(issue.minimum), issue.inclusive !== false)
    case 'too_big':
      return limit(issue.origin, 'most', Number(issue.maximum), issue.inclusive !== false)
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_format':
      return format(issue)
    case 'invalid_value':
      return oneOf(issue.values)
    case 'invalid_union': {
      const options = issueOptions(issue)
      if (options) return oneOf(options)
      const wanted = issue.errors.flatMap(branch => branch.map(inner => requirement(inner).replace(/^must be /, '')))
      return `must be ${[...new Set(wanted)].join(' or ')}`
    }
    default:
      return 'is not valid'
  }
}

/** If the issue is about a mapping with variants, the values that distinguish the variants. Otherwise undefined. */
function issueOptions(issue: Issue): readonly unknown[] | undefined {
  return issue.code === 'invalid_union' && 'options' in issue ? issue.options : undefined
}

function oneOf(values: readonly unknown[]): string {
  return values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(', ')}`
}

function limit(origin: string, side: 'least' | 'most', bound: number, inclusive: boolean): string {
  if (origin === 'string' || origin === 'array' || origin === 'set' || origin === 'map') {
    if (side === 'least' && bound === 1) return 'must not be empty'
    const unit = origin === 'string' ? 'character' : 'item'
    return `must have at ${side} ${bound} ${unit}${bound === 1 ? '' : 's'}`
  }
  if (inclusive) return `must be at ${side} ${bound}`
  return `must be ${side === 'least' ? 'more' : 'less'} than ${bound}`
}

function format(issue: z.core.$ZodIssueInvalidStringFormat): string {
  if (issue.format === 'regex') return `must match ${issue.pattern}`
  if (issue.format === 'url') return 'must be a URL, as in https://example.com/path'
  const affix = issue as { prefix?: string; suffix?: string; includes?: string }
  if (affix.prefix !== undefined) return `must begin with ${JSON.stringify(affix.prefix)}`
  if (affix.suffix !== undefined) return `must end with ${JSON.stringify(affix.suffix)}`
  if (affix.includes !== undefined) return `must contain ${JSON.stringify(affix.includes)}`
  return `must be a valid ${issue.format.replaceAll('_', ' ')}`
}

/** The kind of the actual value: `text`, `a list`. */
function kindOf(node: ConfigNode, issue: Issue): string {
  if (node.kind !== 'scalar') return node.kind === 'list' ? 'a list' : 'a mapping'
  const wantsText = issue.code === 'invalid_type' && issue.expected === 'string'
  const quotes = wantsText ? '; put it in quotes' : ''
  if (typeof node.value === 'number') {
    const wantsInt = issue.code === 'invalid_type' && issue.expected === 'int'
    return wantsInt ? String(scalarText(node)) : `a number${quotes}`
  }
  if (typeof node.value === 'boolean') return `${node.value}${quotes}`
  if (node.environment) return `the text of ${scalarText(node)}`
  const plain = typeof node.value === 'string' && plainValue(node.value) !== undefined
  return plain && !wantsText ? 'text; remove the quotes' : 'text'
}

const SHOWN_LENGTH = 60

/** A scalar as written in its file: `"fixd"`, or `${MODE}` if it came from the environment. */
export function scalarText(node: ConfigNode): string | undefined {
  if (node.kind !== 'scalar') return undefined
  const text = node.environment?.text ?? node.value
  if (typeof text !== 'string') return String(text)
  const short = text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text
  return node.environment ? short : JSON.stringify(short)
}

function environmentValues(node: ConfigNode): string[] {
  if (node.kind === 'scalar') return [...(node.environment?.values ?? [])]
  const children = node.kind === 'list' ? node.items : [...node.entries.values()].map(entry => entry.value)
  return children.flatMap(environmentValues)
}

/** Whether to read `node`'s variable as a number or boolean, since it looks like one and the option rejects text. */
export function wantsPlain(issue: Issue, node: ScalarNode): boolean {
  if (node.environment?.plain === undefined || typeof node.value !== 'string') return false
  return issue.code === 'invalid_type' || issue.code === 'invalid_union' || issue.code === 'invalid_value'
}
