import { marksIn } from './marks.js'
import { isChosen } from './processors.js'
import type { Topology } from './topology.js'

/** Where the events of a topology have to be in the end. */
export interface Expected {
  /** How often each comes when nothing goes wrong, by the destination, or by the processor with dead letters, that has to have them. */
  readonly at: ReadonlyMap<string, ReadonlyMap<string, number>>
}

/** Follows every event through the topology. */
export function expectedOf({ processors, destinations }: Topology, marks: Iterable<string>): Expected {
  const at = new Map<string, Map<string, number>>()
  const need = (id: string, mark: string) => {
    const marks = at.get(id) ?? new Map<string, number>()
    at.set(id, marks.set(mark, (marks.get(mark) ?? 0) + 1))
  }
  const follow = (mark: string, output: string): void => {
    for (const { id, inputs } of destinations) if (inputs.includes(output)) need(id, mark)
    for (const processor of processors) {
      if (!processor.inputs.includes(output)) continue
      const { id, deed, onError } = processor
      if (!isChosen(mark, processor)) follow(mark, id)
      else if (deed === 'discard') follow(mark, `${id}.discarded`)
      else if (deed === 'route') follow(mark, `${id}.chosen`)
      else if (deed === 'explode') for (const part of ['x', 'y']) follow(/[xy]$/.test(mark) ? mark : mark + part, id)
      else if (deed !== 'fail' && deed !== 'throw') follow(mark, id)
      else if (onError === 'pass') follow(mark, id)
      else if (onError === 'dead_letter') need(id, mark)
    }
  }
  for (const mark of marks) follow(mark, mark[0]!)
  return { at }
}

/** Marks in files, by the component that wrote them. */
export function marksInFiles(files: ReadonlyMap<string, { readonly content: Buffer }>): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const [path, { content }] of files) {
    const [, id] = /([^/]+?)\.(?:ndjson|log)/.exec(path) ?? []
    if (id === undefined) continue
    const marks = found.get(id) ?? new Set()
    for (const line of content.toString('latin1').split('\n')) {
      if (isWhole(line)) for (const mark of marksIn(line)) marks.add(mark)
    }
    found.set(id, marks)
  }
  return found
}

/** Whether a line is not the torn beginning of one, or that and another one behind it. */
export function isWhole(line: string): boolean {
  try {
    JSON.parse(line)
    return true
  } catch {
    return false
  }
}
