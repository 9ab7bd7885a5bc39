import type { z } from 'zod'
import { ConfigError, type Fault } from '../../core/errors.js'
import { NearestName } from '../../lib/nearest.js'
import { check, Explainer } from './checks/diagnostics.js'
import { type ConfigNode, type MapEntry, SourceText } from './yaml/node.js'
import { Problems } from './yaml/problems.js'

/**
 * Parses options that a program or a command line passes. Messages are the same as for options in a file. There are
 * at most `most` faults; `count` says how many there are at least.
 */
export function parseOptions<S extends z.ZodObject>(
  schema: S,
  options: unknown,
  most?: number,
): { readonly value: z.output<S> } | { readonly faults: readonly Fault[]; readonly count: number } {
  const checked = check(schema, options)
  if ('value' in checked) return { value: checked.value as z.output<S> }
  const problems = new Problems(most)
  const source = new SourceText('', '')
  const subject = { node: nodeOf(options, source), path: [], key: undefined }
  let count = 0
  try {
    new Explainer(problems, new NearestName()).explain(checked.issues, subject)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    count = error.count
  }
  return {
    faults: problems.list().map(({ path, message }) => ({ path, message })),
    count: Math.max(count, problems.size),
  }
}

export class OptionsError extends Error {
  readonly code = 'SLUICE_OPTIONS'
  readonly faults: readonly Fault[]
  /** `of`: whose options these are, for the message. */
  constructor(of: string, faults: readonly Fault[]) {
    super(
      `${of}: ${faults.map(({ path, message }) => (path ? `${path}: ${message}` : `options: ${message}`)).join('; ')}`,
    )
    this.name = 'OptionsError'
    this.faults = faults
  }
}

function nodeOf(value: unknown, source: SourceText): ConfigNode {
  const at = { source, offset: 0, size: 1, flow: false }
  if (Array.isArray(value)) return { kind: 'list', ...at, items: value.map(item => nodeOf(item, source)) }
  if (typeof value === 'object' && value !== null) {
    // Nodes of members are made when they are read, because messages mention few of them.
    const entries = new Map<string, MapEntry>()
    entries.get = name => {
      const member = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
      return member === undefined ? undefined : { key: at, value: nodeOf(member, source) }
    }
    return { kind: 'map', ...at, entries }
  }
  const plain = typeof value === 'number' || typeof value === 'boolean' || value === null
  return { kind: 'scalar', ...at, value: plain ? value : String(value), environment: undefined, broken: false }
}
