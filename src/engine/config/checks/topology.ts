import { REJECTED } from '../../../core/options/delivery-options.js'
import { DISCARDED, UNROUTED } from '../../../core/processor.js'
import { type Draft, report } from '../component-config.js'
import { missingOutput, sourcesOf, splitInput } from '../inputs.js'
import { SECTIONS } from '../schema.js'
import { type ConfigNode, locate, placeOf } from '../yaml/node.js'
import type { FoundProblem, Problems } from '../yaml/problems.js'
import { type Explainer, scalarText } from './diagnostics.js'

/** Longer cycles are shown without their middle part. */
const SHOWN_STEPS = 10

/** One input of a component. `to`: the component whose events are read. `item`: the input's index in `inputs`. */
interface Edge {
  readonly to: Draft
  readonly output: string | undefined
  readonly item: number
  readonly node: ConfigNode
}

export function checkTopology(
  drafts: ReadonlyMap<string, Draft>,
  { problems, warnings }: FoundProblem,
  explainer: Explainer,
): void {
  const edges = new Map<Draft, Edge[]>()
  /** Ids of components whose output is read. */
  const read = new Set<string>()
  /** Side outputs that are read, such as `limit_app.discarded`. */
  const side = new Set<string>()
  // If an input is a misspelled id, the intended component seems unread. Unread components are then not reported.
  let unknown = false
  const readable = [...drafts.values()].filter(({ kind }) => kind !== 'destination').map(({ id }) => id)
  for (const draft of drafts.values()) {
    const seen = new Set<string>()
    const found: Edge[] = []
    for (const [item, { text, node }] of draft.inputs.entries()) {
      const [id, output] = splitInput(text)
      const to = drafts.get(id)
      if (!to) unknown = true
      const missing = () => `there is no source or processor ${scalarText(node)}${explainer.suggestion(id, readable)}`
      const wrong = seen.has(text) ? 'is listed twice' : to ? fault(to, output) : missing()
      if (wrong !== undefined) problems.add(node, [...pathOf(draft), 'inputs', item], wrong)
      else if (to) found.push({ to, output, item, node })
      // If only the output `discarded` of a component is read, the component still counts as unread.
      if (output !== DISCARDED) read.add(id)
      if (output !== undefined) side.add(text)
      seen.add(text)
    }
    edges.set(draft, found)
  }
  if (!reportCycles(edges, problems)) checkCopies(connectionsOf(edges), problems)
  reportSecondReaders(drafts, problems)
  warnDependent(drafts, warnings)
  for (const draft of drafts.values()) {
    if (unknown || draft.kind === 'destination') continue
    for (const { option, output, what } of draft.config?.plan?.expects ?? []) {
      if (side.has(`${draft.id}.${output}`)) continue
      report(warnings, draft, [option], unreadText(`${draft.id}.${output}`, `where ${what} go`))
    }
    warnUnread(draft, side, warnings)
    const { main, observes } = draft.config?.plan ?? {}
    // A component without options was reported before. Perhaps its options only lack indentation.
    if (draft.entry.value.kind !== 'map') continue
    if (read.has(draft.id) || main !== undefined || observes) continue
    const what = draft.kind === 'source' ? 'its events' : 'the events that it passes'
    report(warnings, draft, [], `nobody reads ${what}: add ${draft.id} to the inputs of a component`)
  }
}

const OR = new Intl.ListFormat('en', { type: 'disjunction' })
const AND = new Intl.ListFormat('en')

/**
 * Warns of sources with several destinations if one of these sends over the network without a disk buffer. Readers of
 * discarded and rejected events do not count. An option `buffer` in the configuration means that its user has decided.
 */
function warnDependent(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  const fed = new Map<Draft, Draft[]>()
  for (const draft of drafts.values()) {
    if (draft.kind !== 'destination') continue
    for (const source of sourcesOf(draft, drafts, isOnWay)) fed.set(source, [...(fed.get(source) ?? []), draft])
  }
  const reported = new Set<Draft>()
  for (const [{ id }, destinations] of fed) {
    const all = destinations.filter(mayBlock)
    const [first] = all
    if (!first || destinations.length === 1 || all.every(one => reported.has(one))) continue
    for (const one of all) reported.add(one)
    const ids = all.slice(0, SHOWN).map(one => one.id)
    if (all.length > SHOWN) ids.push('others')
    const whose = all.length === 1 ? 'its receiver' : `a receiver of ${OR.format(ids)}`
    const text = `while ${whose} is slow or away, the other destinations of ${id} wait, too. To keep them apart, add buffer: { type: disk } to ${AND.format(ids)}; to accept this, add buffer: { type: memory }`
    report(warnings, first, [], text)
  }
}

function mayBlock({ definition, entry: { value } }: Draft): boolean {
  const isDecided = value.kind === 'map' && value.entries.has('buffer')
  return definition?.promises !== undefined && !definition.spools && !isDecided
}

/** Whether an input brings other events than those that its component discards or rejects. */
const isOnWay = (input: string) => ![DISCARDED, REJECTED].includes(splitInput(input)[1] ?? '')

const unreadText = (output: string, consequence: string) =>
  `nobody reads ${output}, ${consequence}: add ${output} to the inputs of a component`

function warnUnread({ id, kind, entry, config }: Draft, side: ReadonlySet<string>, warnings: Problems): void {
  const { outputs = [], main, option } = config?.plan ?? {}
  for (const output of main === undefined ? outputs : [...outputs, main]) {
    const name = `${id}.${output}`
    if (side.has(name)) continue
    const path = option === undefined ? [] : [option]
    const own = locate(entry.value, [...path, output], entry.key)
    const place = placeOf(own.node ? own : locate(entry.value, path, entry.key))
    warnings.add(place, [SECTIONS[kind], id, ...path], unreadText(name, `so its events are discarded (${UNROUTED})`))
  }
}

function pathOf(draft: Draft): [string, string] {
  return [SECTIONS[draft.kind], draft.id]
}

/** Why `output` of `to` cannot be read; undefined if it can. */
function fault(to: Draft, output: string | undefined): string | undefined {
  if (to.kind === 'destination') return destinationFault(to, output)
  return to.config && missingOutput(to.config, output)
}

function destinationFault({ id, config }: Draft, output: string | undefined): string | undefined {
  if (output !== REJECTED)
    return `${id} is a destination: only the events that it rejects can be read, as ${id}.${REJECTED}`
  if (config?.delivery?.on_reject !== 'discard') return undefined
  return `${id} discards the events that it rejects: remove on_reject: discard to read them here`
}

/** Turns the edges around: lists the readers of each component. */
function connectionsOf(edges: ReadonlyMap<Draft, readonly Edge[]>): Connections {
  const connections = new Map<Draft, Connection[]>([...edges.keys()].map(draft => [draft, []]))
  for (const [reader, inputs] of edges)
    for (const { to, output } of inputs) connections.get(to)!.push({ reader, output })
  return connections
}

/**
 * Reports each cycle of components at the input that closes it. This input connects two components. Skips a new cycle
 * if one of the two is in a reported cycle. Returns whether a cycle exists.
 */
function reportCycles(edges: ReadonlyMap<Draft, readonly Edge[]>, problems: Problems): boolean {
  const done = new Set<Draft>()
  const reported = new Set<Draft>()
  for (const start of edges.keys()) {
    // Not recursive, since a chain of components may be longer than the stack allows.
    const trail: { draft: Draft; next: number }[] = [{ draft: start, next: 0 }]
    const onTrail = new Map<Draft, number>([[start, 0]])
    while (trail.length > 0 && !done.has(start)) {
      const top = trail.at(-1)!
      const edge = edges.get(top.draft)?.[top.next++]
      if (!edge) {
        done.add(top.draft)
        onTrail.delete(top.draft)
        trail.pop()
      } else if (onTrail.has(edge.to)) {
        if (reported.has(edge.to) || reported.has(top.draft)) continue
        const cycle = trail.slice(onTrail.get(edge.to)!).map(({ draft }) => draft)
        for (const draft of cycle) reported.add(draft)
        const path = [...pathOf(top.draft), 'inputs', edge.item]
        problems.add(edge.node, path, `the components form a cycle: ${showCycle(cycle)}`)
      } else if (!done.has(edge.to)) {
        onTrail.set(edge.to, trail.length)
        trail.push({ draft: edge.to, next: 0 })
      }
    }
  }
  return reported.size > 0
}

/** Reports a second source for a stream that only one can read. Two sources would miss each other's bytes. */
function reportSecondReaders(drafts: ReadonlyMap<string, Draft>, problems: Problems): void {
  const first = new Map<string, Draft>()
  for (const draft of drafts.values()) {
    const single = draft.definition?.single
    if (single === undefined) continue
    const reader = first.get(single)
    if (reader) report(problems, draft, [], `there is one ${single} only, and ${reader.id} reads it`)
    else first.set(single, draft)
  }
}

/** Shows the cycle in the direction in which events flow: `a -> b -> a`. `cycle` is in the opposite direction. */
function showCycle(cycle: readonly Draft[]): string {
  const ids = cycle.map(({ id }) => id).reverse()
  ids.push(ids[0]!)
  if (ids.length > SHOWN_STEPS) ids.splice(SHOWN_STEPS / 2, ids.length - SHOWN_STEPS, '…')
  return ids.join(' -> ')
}

/**
 * Limits how often one event is copied. A component receives an event once for each path that leads to the component.
 * In a chain where each component reads the two components before it, the number of copies grows by a factor of 1.6 at
 * each component.
 */

interface Connection {
  readonly reader: Draft
  readonly output: string | undefined
}

/** The readers of each component. There are no cycles. */
type Connections = ReadonlyMap<Draft, readonly Connection[]>

/** Both limits must be exceeded before a configuration is rejected, because a large one may need many copies. */
const MOST_COPIES = 1000
const MOST_FOR_EACH_CONNECTION = 4
/** Larger counts are replaced by this number. */
const COUNTLESS = 1e12
const SHOWN = 6

function checkCopies(connections: Connections, problems: Problems): void {
  let total = 0
  for (const readers of connections.values()) total += readers.length
  const most = Math.max(MOST_COPIES, MOST_FOR_EACH_CONNECTION * total)
  const copies = countCopies(connections)
  for (const [draft, count] of copies) {
    if (draft.kind !== 'source' || count <= most) continue
    const number = count >= COUNTLESS ? 'more than 10^12' : String(count)
    const joins = joinsBehind(draft, connections, copies)
    const text = `one of its events would be copied ${number} times (at most ${most} are allowed), because components such as these receive the same events by several paths: ${joins.join(', ')}. Remove inputs that bring the same events twice`
    report(problems, draft, [], text)
  }
}

/** For each component: how many copies all downstream components receive in total if the component sends one event. */
function countCopies(connections: Connections): Map<Draft, number> {
  const copies = new Map<Draft, number>()
  for (const start of connections.keys()) {
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

/**
 * Counts the copies of one event. If the component sends each event to only one output, takes the output with the most
 * copies. Otherwise adds up all outputs.
 */
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

/** Follows the path with the most copies. Returns the first components on this path that have several inputs. */
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
