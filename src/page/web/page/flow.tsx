import { computed } from '@preact/signals'
import { useData } from '../kit/data.js'
import { type FlowEdge as Edge, Graph, graphWidth } from '../kit/graph.js'
import { Filter, Glow, matches, StateMark } from '../kit/parts.js'
import { Plot, Spark } from '../kit/plot.js'
import { adjust, currentRoute, link } from '../kit/route.js'
import { isNarrow, screenWidth } from '../kit/screen.js'
import { stored } from '../kit/stored.js'
import { type Column, Table } from '../kit/table.js'
import { countedWhole, durationText, grouped, percentText, rate, shortNumber } from '../kit/words.js'
import { totalOf } from './books.js'
import { rankOf, worstOf } from './health.js'
import { countsOf, endedOf, histories, isFresh, rates, rateUnit, second, smoothed, status } from './live.js'
import { ProblemList } from './problems.js'
import { bucketTitle } from './throttle.js'
import type { Component, ShownThrottle, Values } from './types.js'

/** With more nodes, nobody could follow the lines, so a table shows them. */
const MOST_NODES = 60
const filter = stored('flow.filter', '')
/** Whether to draw the graph. Null: if it fits. */
const isDrawn = stored<boolean | null>('flow.graph', null)

/** Returns the component and the output that an input names. */
export function inputParts(input: string, ids: ReadonlySet<string>): readonly [string, string | undefined] {
  if (ids.has(input)) return [input, undefined]
  const at = input.lastIndexOf('.')
  return [input.slice(0, at), input.slice(at + 1)]
}

/** The flow between components, in events per second. */
const edges = computed(() => {
  const components = status.value?.components ?? []
  const byId = new Map(components.map(one => [one.id, one]))
  const ids = new Set(byId.keys())
  return components.flatMap(({ id, inputs = [], blocked_inputs: blocked = [] }) =>
    inputs.flatMap((input): Edge[] => {
      const [from, output] = inputParts(input, ids)
      const sender = byId.get(from)
      if (!sender) return []
      const sent = rates.value.get(from)?.sent ?? 0
      // Side outputs are counted less often, so their shares come from the totals.
      const aside = sender.side_outputs ?? {}
      const share =
        sender.sent > 0
          ? output === undefined
            ? 1 - totalOf(aside) / sender.sent
            : (aside[output] ?? 0) / sender.sent
          : 0
      const flow = inputs.length === 1 ? (rates.value.get(id)?.received ?? 0) : sent * share
      return [{ from, to: id, flow, isBlocked: blocked.includes(input), ...(output !== undefined && { output }) }]
    }),
  )
})

/** Pixels on both sides of the graph. */
const MARGINS = 32
const fits = computed(() => {
  const ids = (status.value?.components ?? []).map(({ id }) => id)
  return graphWidth(ids, edges.value) + MARGINS <= screenWidth.value
})

export const discardsOf = (id: string): [string, number][] => Object.entries(second.value?.books?.discarded[id] ?? {})

export function historyOf(id: string, name: 'received' | 'sent' | 'discarded'): Values {
  return smoothed(histories.value?.components[id]?.[name] ?? [], histories.value?.step_ms ?? 1)
}

/** Formats the rates of a component: the input of a source, the output of a destination, or both of a processor. */
function numbersOf({ id, kind }: Component): string {
  const of = rates.value.get(id)
  if (!of) return '–'
  if (kind === 'source') return `${rate(of.received)} →`
  return kind === 'destination' ? `→ ${rate(of.sent)}` : `${rate(of.received)} → ${rate(of.sent)}`
}

/** Maximum buckets requested, to count those at the limit. */
const MOST_BUCKETS = 100
const BUCKETS_MS = 5000
const NAMED_BUCKETS = 2
const LONGEST_NAME = 24

const shortened = (name: string) =>
  name.length > LONGEST_NAME ? `${[...name].slice(0, LONGEST_NAME).join('')}…` : name

function AtLimit({ id }: { id: string }) {
  const path = `throttles/${encodeURIComponent(id)}`
  const { data } = useData<ShownThrottle>(path, { limit: MOST_BUCKETS }, BUCKETS_MS)
  const full = data?.keys.filter(({ pressure }) => pressure >= 1) ?? []
  if (full.length === 0) return null
  const names = full.slice(0, NAMED_BUCKETS).map(one => shortened(bucketTitle(one)))
  return (
    <p>
      <a class="dim" href={link('throttle', id)}>
        {full.length === MOST_BUCKETS ? `${full.length} keys or more` : countedWhole(full.length, 'key')} at the limit
        in the last minute: {names.join(', ')}
        {full.length > names.length && ', …'}
      </a>
    </p>
  )
}

function Node({ of }: { of: Component }) {
  const { id, kind, type } = of
  const bad = worstOf(id)
  const { in_flight } = countsOf(id)
  const discarded = rates.value.get(id)?.discarded ?? 0
  const reasons = discardsOf(id).sort((a, b) => b[1] - a[1])
  const outputs = new Set(
    edges.value.flatMap(({ from, output }) => (from === id && output !== undefined ? output : [])),
  )
  return (
    <>
      <a data-row href={link('component', id)} class="name">
        <b>{id}</b> <span class="dim">{type}</span>
      </a>
      <p class="number">
        {numbersOf(of)}{' '}
        <Spark values={historyOf(id, kind === 'destination' ? 'sent' : 'received')} label="last hour" width={64} />
        {in_flight > 0 && <span class="dim"> {shortNumber(in_flight)} in flight</span>}
      </p>
      {bad && (
        <p class="health">
          <StateMark level={bad.level}>
            <Glow text={bad.brief ?? bad.words} />
          </StateMark>
        </p>
      )}
      {reasons.length > 0 && (
        <p class="leaving" data-leaves={discarded} data-output="discarded">
          <a href={link('component', id, { reason: reasons[0]![0] })}>
            <span class="number">−{rate(discarded)}</span> {reasons.map(([reason]) => reason).join(', ')}
          </a>
        </p>
      )}
      {[...outputs]
        .filter(output => output !== 'discarded' || reasons.length === 0)
        .map(output => (
          <p key={output} class="leaving" data-output={output}>
            .{output}
          </p>
        ))}
      {type === 'throttle' && <AtLimit id={id} />}
    </>
  )
}

const columns: readonly Column<Component>[] = [
  { name: 'component', isText: true, value: ({ id }) => id, cell: ({ id }) => <b>{id}</b> },
  {
    name: 'type',
    isText: true,
    isWide: true,
    value: ({ type }) => type,
    cell: ({ type }) => <span class="dim">{type}</span>,
  },
  {
    name: 'state',
    isText: true,
    isWide: true,
    grows: true,
    value: ({ id }) => rankOf(id),
    cell: ({ id }) => {
      const bad = worstOf(id)
      return bad ? <StateMark level={bad.level}>{bad.words}</StateMark> : <span class="dim">fine</span>
    },
  },
  {
    name: 'in/s',
    value: ({ id }) => rates.value.get(id)?.received,
    cell: ({ id }) => rate(rates.value.get(id)?.received),
  },
  { name: 'out/s', value: ({ id }) => rates.value.get(id)?.sent, cell: ({ id }) => rate(rates.value.get(id)?.sent) },
  {
    name: 'discarded/s',
    value: ({ id }) => rates.value.get(id)?.discarded,
    cell: ({ id }) => rate(rates.value.get(id)?.discarded),
  },
  {
    name: 'in flight',
    isWide: true,
    value: ({ id }) => countsOf(id).in_flight,
    cell: ({ id }) => grouped(countsOf(id).in_flight),
  },
  {
    name: 'busy',
    isWide: true,
    value: ({ id, utilization }) => busyOf(id) ?? utilization,
    cell: ({ id, utilization }) =>
      (busyOf(id) ?? utilization) === undefined ? '–' : percentText((busyOf(id) ?? utilization)!),
  },
  {
    name: 'last hour',
    isWide: true,
    value: ({ id }) => historyOf(id, 'received').reduce<number>((sum, value) => sum + (value ?? 0), 0),
    cell: ({ id, kind }) => (
      <Spark values={historyOf(id, kind === 'destination' ? 'sent' : 'received')} label="last hour" />
    ),
  },
]

function busyOf(id: string): number | undefined {
  const permille = second.value?.components[id]?.[4]
  return permille === undefined || permille === null ? undefined : permille / 1000
}

/** Shows all components together in the last hour. */
function LastHour() {
  const all = histories.value
  if (!all) return null
  const from = new Date(all.from).getTime()
  const kinds = new Map(status.value?.components.map(({ id, kind }) => [id, kind]))
  const sum = (name: 'received' | 'sent' | 'discarded', kind?: string) => {
    const ids = Object.keys(all.components).filter(id => kind === undefined || kinds.get(id) === kind)
    const chosen = ids.map(id => historyOf(id, name))
    const length = Math.max(0, ...chosen.map(values => values.length))
    return Array.from({ length }, (_, i) => {
      const known = chosen.map(values => values[i] ?? null).filter(value => value !== null)
      return known.length === 0 ? null : known.reduce((total, value) => total + value, 0)
    })
  }
  const received = sum('received', 'source')
  const at = received.map((_, i) => from + i * all.step_ms)
  const ended = endedOf(at, all.step_ms)
  if (ended < 2) return null
  return (
    <Plot
      label={`the last ${durationText(ended * all.step_ms)}, ${rateUnit(all.step_ms)}`}
      at={at.slice(0, ended)}
      curves={[
        { label: 'read', values: received.slice(0, ended), colour: 'area', isArea: true },
        {
          label: 'delivered, all destinations together',
          values: sum('sent', 'destination').slice(0, ended),
          colour: 'accent',
        },
        { label: 'discarded', values: sum('discarded').slice(0, ended), colour: 'ink', dash: [3, 3] },
      ]}
    />
  )
}

export function FlowPanel() {
  const all = status.value?.components ?? []
  const isFew = !isNarrow.value && all.length <= MOST_NODES
  const isGraph = isFew && (isDrawn.value ?? fits.value)
  const { path } = currentRoute.value.params
  const byId = new Map(all.map(one => [one.id, one]))
  const isFound = (id: string) => {
    const bad = worstOf(id)
    return matches(`${id} ${byId.get(id)?.type} ${byId.get(id)?.kind} ${bad?.words ?? ''}`, filter.value)
  }
  const found = all.filter(({ id }) => isFound(id))
  return (
    <>
      <ProblemList />
      <div class="tools">
        <h1>Flow</h1>
        <Filter
          label="filter components"
          value={filter.value}
          change={text => (filter.value = text)}
          shown={`${grouped(found.length)} of ${countedWhole(all.length, 'component')}`}
        />
        {path !== undefined && (
          <span class="filter active">
            <output>the path of {path}</output>
            <button type="button" onClick={() => adjust({ path: undefined })}>
              show all
            </button>
          </span>
        )}
        {isFew && (
          <button type="button" onClick={() => (isDrawn.value = !isGraph)}>
            {isGraph ? 'as a table' : 'as a graph'}
          </button>
        )}
      </div>
      <div class={isFresh.value ? '' : 'stale'}>
        {isGraph ? (
          <Graph
            label="Components, from sources to destinations"
            nodes={all.map(({ id }) => id)}
            edges={edges.value}
            pinned={path}
            isFound={isFound}
            draw={id => <Node of={byId.get(id)!} />}
          />
        ) : (
          <Table
            name="flow"
            label="Components"
            columns={columns}
            rows={found}
            keyOf={({ id }) => id}
            order={{ by: 'state', down: true }}
            href={({ id }) => link('component', id)}
            under={({ id, type }) => {
              const bad = worstOf(id)
              if (bad) return <StateMark level={bad.level}>{bad.words}</StateMark>
              return type === 'throttle' && <AtLimit id={id} />
            }}
          />
        )}
      </div>
      <LastHour />
    </>
  )
}
