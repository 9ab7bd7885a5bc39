import { marksIn } from './marks.js'
import { isChosen } from './processors.js'
import type { Fate, ThrottleRecord } from './throttle.js'
import type { Topology } from './topology.js'

/** A way of an event that it goes only if a throttle decided so. */
interface Condition {
  readonly throttle: string
  /** As it was known there. */
  readonly mark: string
  readonly fate: Fate
}

export interface Need {
  /** How often the event comes when nothing goes wrong. */
  times: number
  /** What has to be decided on each of its ways for it to come. */
  readonly ways: (readonly Condition[])[]
}

/** Where the events of a topology have to be in the end: by the destination, or by the processor with dead letters, that has to have them. */
export type Expected = ReadonlyMap<string, ReadonlyMap<string, Need>>

/** Follows every event through the topology. */
export function expectedOf({ processors, destinations }: Topology, marks: Iterable<string>): Expected {
  const at = new Map<string, Map<string, Need>>()
  const need = (id: string, mark: string, way: readonly Condition[]) => {
    const needs = at.get(id) ?? new Map<string, Need>()
    const one = needs.get(mark) ?? { times: 0, ways: [] }
    one.times++
    one.ways.push(way)
    at.set(id, needs.set(mark, one))
  }
  const follow = (mark: string, output: string, way: readonly Condition[]): void => {
    for (const { id, inputs } of destinations) if (inputs.includes(output)) need(id, mark, way)
    for (const processor of processors) {
      if (!processor.inputs.includes(output)) continue
      const { id, deed, onError } = processor
      if (deed === 'throttle') {
        follow(mark, id, [...way, { throttle: id, mark, fate: 'passed' }])
        follow(mark, `${id}.discarded`, [...way, { throttle: id, mark, fate: 'discarded' }])
      } else if (!isChosen(mark, { ...processor, deed })) follow(mark, id, way)
      else if (deed === 'discard') follow(mark, `${id}.discarded`, way)
      else if (deed === 'route') follow(mark, `${id}.chosen`, way)
      else if (deed === 'copy') for (const output of [id, `${id}.chosen`]) follow(mark, output, way)
      else if (deed === 'explode')
        for (const part of ['x', 'y']) follow(/[xy]$/.test(mark) ? mark : mark + part, id, way)
      else if (deed !== 'fail' && deed !== 'throw') follow(mark, id, way)
      else if (onError === 'pass') follow(mark, id, way)
      else if (onError === 'dead_letter') need(id, mark, way)
    }
  }
  for (const mark of marks) follow(mark, mark[0]!, [])
  return at
}

/** Whether throttles decided so that an event need not come. What was not decided yet has to be. */
export function isThrottled({ ways }: Need, throttles: ReadonlyMap<string, ThrottleRecord>): boolean {
  return ways.every(way =>
    way.some(({ throttle, mark, fate }) => {
      const decided = throttles.get(throttle)!.fates.get(mark)
      return decided !== undefined && decided !== fate
    }),
  )
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
