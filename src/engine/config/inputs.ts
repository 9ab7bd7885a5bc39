import { type OnError, outputNames, type Plan } from '../../core/processor.js'
import type { ComponentConfig, Draft } from './component-config.js'

/** The components of a configuration. */
export interface Components {
  readonly sources: readonly ComponentConfig<'source'>[]
  readonly processors: readonly ComponentConfig<'processor'>[]
  readonly destinations: readonly ComponentConfig<'destination'>[]
}

export const componentsOf = ({ sources, processors, destinations }: Components): readonly ComponentConfig[] => [
  ...sources,
  ...processors,
  ...destinations,
]

/** Splits `limit_app.discarded` into its id and side output. */
export function splitInput(text: string): [id: string, output: string | undefined] {
  const dot = text.indexOf('.')
  return dot === -1 ? [text, undefined] : [text.slice(0, dot), text.slice(dot + 1)]
}

interface Planned {
  readonly id: string
  readonly type: string
  readonly plan?: Plan
  readonly onError?: OnError
}

export function outputsOf({ plan, onError }: Planned): string[] {
  return plan && onError ? outputNames(plan, onError) : []
}

/** Returns why a source or processor does not have this output; undefined if it has the output. */
export function missingOutput(component: Planned, output: string | undefined): string | undefined {
  const { id, type, plan } = component
  if (output === undefined && plan?.main === undefined) return undefined
  const outputs = outputsOf(component)
  if (output !== undefined && outputs.includes(output)) return undefined
  if (outputs.length === 0) return `${id} (type ${type}) has no side outputs; its events are read as ${id}`
  const what = output === undefined ? 'no main output' : 'no side output of this name'
  return `${id} (type ${type}) has ${what}; it has ${outputs.map(name => `${id}.${name}`).join(', ')}`
}

/** The sources and processors whose events reach a component, by inputs for which `counts` returns true. */
export function upstreamOf(
  draft: Draft,
  drafts: ReadonlyMap<string, Draft>,
  counts = (_input: string) => true,
): Draft[] {
  const seen = new Set([draft])
  // The set grows during this loop.
  for (const { inputs } of seen) {
    for (const { text } of inputs) {
      const input = drafts.get(splitInput(text)[0])
      if (input && counts(text)) seen.add(input)
    }
  }
  seen.delete(draft)
  return [...seen]
}

export function sourcesOf(
  draft: Draft,
  drafts: ReadonlyMap<string, Draft>,
  counts?: (input: string) => boolean,
): Draft[] {
  return upstreamOf(draft, drafts, counts).filter(({ kind }) => kind === 'source')
}
