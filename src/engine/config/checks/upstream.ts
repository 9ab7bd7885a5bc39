import type { Draft } from '../component-config.js'
import { splitInput } from '../yaml/input.js'

/** The sources and processors whose events reach a component. */
export function upstreamOf(draft: Draft, drafts: ReadonlyMap<string, Draft>): Draft[] {
  const seen = new Set([draft])
  // The set grows during this loop.
  for (const { inputs } of seen) {
    for (const { text } of inputs) {
      const input = drafts.get(splitInput(text)[0])
      if (input) seen.add(input)
    }
  }
  seen.delete(draft)
  return [...seen]
}

/** The sources whose events reach a component. */
export function sourcesOf(draft: Draft, drafts: ReadonlyMap<string, Draft>): Draft[] {
  return upstreamOf(draft, drafts).filter(({ kind }) => kind === 'source')
}
