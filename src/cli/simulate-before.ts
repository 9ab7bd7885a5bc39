import type { Condition } from '../condition/parse.js'
import { splitInput } from '../config/input.js'
import type { ComponentConfig, Config } from '../config/load.js'
import { filter } from '../processors/filter.js'

/** A filter that every event passes on its way to the throttle. */
export interface FilterBefore {
  readonly id: string
  readonly condition: Condition
  /** Whether the throttle gets what matches, or what does not (the output `discarded`). */
  readonly keeps: boolean
}

/** What stands before a throttle in its configuration. */
export interface Before {
  /** A simulation applies these. */
  readonly filters: readonly FilterBefore[]
  /** A simulation does not apply these; in words. */
  readonly skipped: readonly string[]
}

/** Filters are applied while there is one way to the throttle alone; beyond a place with several inputs nothing is. */
export function beforeThrottle(config: Config, throttleId: string): Before {
  const filters: FilterBefore[] = []
  const skipped = new Set<string>()
  const seen = new Set<string>()
  const processors = new Map(config.processors.map(processor => [processor.id, processor]))
  const sources = new Map(config.sources.map(source => [source.id, source]))
  const visit = (inputs: readonly string[], oneWay: boolean) => {
    for (const input of inputs) {
      const [id, outlet] = splitInput(input)
      const processor = processors.get(id)
      const applied = oneWay && inputs.length === 1
      if (processor?.type === filter.type && applied) {
        const { condition } = processor.options as { condition: Condition }
        filters.push({ id, condition, keeps: outlet === undefined })
      } else if (processor) skipped.add(`${id} (${processor.type})`)
      if (!seen.has(id)) visit(processor?.inputs ?? [], applied)
      seen.add(id)
      const source = sources.get(id)
      if (source) for (const text of decodingOf(source)) skipped.add(text)
    }
  }
  visit(processors.get(throttleId)?.inputs ?? [], true)
  return { filters, skipped: [...skipped] }
}

/** A simulation reads JSON. Where a source decodes otherwise, the throttle sees other fields. */
function decodingOf({ id, options }: ComponentConfig): string[] {
  const { decode } = options as { decode?: string }
  return decode === undefined || decode === 'json' ? [] : [`decode: ${decode} of ${id}`]
}
