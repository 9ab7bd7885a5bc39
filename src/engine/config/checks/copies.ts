import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import type { Problems } from '../yaml/problems.js'

/**
 * Limits how often one event is copied. A component that can be reached in several ways gets an event once for each of
 * them, so if components each read the two before them, the copies double at every level.
 */

/** A component that reads another one. */
export interface Connection {
  readonly reader: Draft
  readonly output: string | undefined
}

/** The readers of each component. There are no cycles. */
export type Connections = ReadonlyMap<Draft, readonly Connection[]>

/** Copies of one event are rejected only beyond both limits: large configurations have many without harm. */
const MOST_COPIES = 1000
const MOST_FOR_EACH_CONNECTION = 4
/** Counting stops here. */
const COUNTLESS = 1e12
const SHOWN = 6

/** Rejects sources whose events would be copied too often. */
export function checkCopies(connections: Connections, problems: Problems): void {
  let total = 0
  for (const readers of connections.values()) total += readers.length
  const most = Math.max(MOST_COPIES, MOST_FOR_EACH_CONNECTION * total)
  const copies = countCopies(connections)
  for (const [draft, count] of copies) {
    if (draft.kind !== 'source' || count <= most) continue
    const number = count >= COUNTLESS ? 'more than 10^12' : String(count)
    const joins = joinsBehind(draft, connections, copies)
    problems.add(
      draft.entry.key,
      [SECTIONS[draft.kind], draft.id],
      `one of its events would be copied ${number} times (at most ${most} are allowed), because these components and others read several components that read each other: ${joins.join(', ')}; remove inputs that bring the same events twice`,
    )
  }
}

/** For each component, how many copies of one of its events are made in all components downstream. */
function countCopies(connections: Connections): Map<Draft, number> {
  const copies = new Map<Draft, number>()
  for (const start of connections.keys()) {
    // Iterative: the components may be nested deeper than the stack allows.
    const trail = [{ draft: start, next: 0 }]
    for (let top = trail.at(-1); top; top = trail.at(-1)) {
      const readers = connections.get(top.draft)!
      const connection = copies.has(top.draft) ? undefined : readers[top.next++]
      if (connection) trail.push({ draft: connection.reader, next: 0 })
      else {
        trail.pop()
        if (!copies.has(top.draft)) copies.set(top.draft, copiesOf(top.draft, readers, copies))
      }
    }
  }
  return copies
}

/** If an event leaves by one output, the one with the most copies counts; otherwise all of them. */
function copiesOf({ config }: Draft, readers: readonly Connection[], copies: ReadonlyMap<Draft, number>): number {
  const byOutput = new Map<string | undefined, number>()
  for (const { reader, output } of readers) {
    const sum = (byOutput.get(output) ?? 0) + 1 + copies.get(reader)!
    byOutput.set(output, Math.min(COUNTLESS, sum))
  }
  const sums = [...byOutput.values()]
  return config?.plan?.copies
    ? Math.min(
        COUNTLESS,
        sums.reduce((all, sum) => all + sum, 0),
      )
    : Math.max(0, ...sums)
}

/** The first components with several inputs on the path that makes the most copies. */
function joinsBehind(source: Draft, connections: Connections, copies: ReadonlyMap<Draft, number>): string[] {
  const joins: string[] = []
  for (let at: Draft | undefined = source; at && joins.length < SHOWN; ) {
    let next: Draft | undefined
    for (const { reader } of connections.get(at)!) if (!next || copies.get(reader)! > copies.get(next)!) next = reader
    if (next && next.inputs.length > 1) joins.push(next.id)
    at = next
  }
  return joins
}
