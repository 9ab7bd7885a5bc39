import { useRef } from 'preact/hooks'
import { useData } from '../kit/data.js'
import { CopyableCommand, FailureNote, Filter, matches, Prose, StateMark } from '../kit/parts.js'
import { currentRoute, link } from '../kit/route.js'
import { stored } from '../kit/stored.js'
import { type Column, Table } from '../kit/table.js'
import { bytes, clock, countedWhole, durationText, grouped, percentText, rate } from '../kit/words.js'
import { Event } from './event.js'
import { stateText, waitText } from './health.js'
import { countsOf, isFresh, now, rates, second, status } from './live.js'
import { ProblemList } from './problems.js'
import type { Evidence, PageStatus, Second, ShownDestination, ShownLetters } from './types.js'

const filter = stored('delivery.filter', '')
const EVERY_MS = 5000

type Live = Second['destinations'][string]
type Numbers = { readonly [Name in keyof Live | 'buffer_max_bytes']?: number }

/** A destination with its numbers from the last second. If there are none, they are from the last status. */
interface Row extends ShownDestination {
  readonly type: string
  readonly numbers: Numbers
  readonly letters: number
}

/** Removes null, which stands for numbers that a destination does not have. */
const withoutNulls = (numbers: Partial<Live>): Numbers =>
  Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null))

function rowsOf(): Row[] {
  return (status.value?.destinations ?? []).map(one => {
    const live = withoutNulls(second.value?.destinations[one.id] ?? {})
    const stored = one.buffer ?? one.spool
    const sizes = stored && { buffered_bytes: stored.used_bytes, buffer_max_bytes: stored.max_bytes }
    const type = status.value!.components.find(({ id }) => id === one.id)?.type ?? ''
    return { ...one, type, numbers: { ...one.requests, ...sizes, ...live }, letters: live.dead_letters ?? 0 }
  })
}

function State({ of }: { of: Row }) {
  const { id, state, reason, last_outage, numbers } = of
  const wait = waitText(id)
  if (state === 'ready' || state === 'stopped')
    return (
      <>
        {wait === undefined ? state : <StateMark level="note">{wait}</StateMark>}{' '}
        {numbers.unanswered_ms !== undefined && numbers.unanswered_ms > 0 && (
          <StateMark level="warning">no answer for {ms(numbers.unanswered_ms)}</StateMark>
        )}
        {last_outage && (
          <span class="dim">
            {' '}
            again since {clock(last_outage.until)}; before that,{' '}
            {durationText(Date.parse(last_outage.until) - Date.parse(last_outage.since))} of failures
            {last_outage.error && `: ${last_outage.error}`}
          </span>
        )}
      </>
    )
  return (
    <>
      <StateMark level="error">{stateText(of, now.value)}</StateMark> {reason}
    </>
  )
}

const ms = (value: number | undefined) => (value === undefined ? '–' : durationText(value))

const bound = (value: number | undefined) => (value === undefined ? '–' : `≤ ${durationText(value)}`)

const oldestOf = ({ numbers, oldest_event }: Row) =>
  numbers.oldest_ms ?? (oldest_event === undefined ? undefined : now.value - Date.parse(oldest_event))

function columnsOf(rows: readonly Row[]): Column<Row>[] {
  const has = (name: keyof Numbers) => rows.some(({ numbers }) => numbers[name] !== undefined)
  const latency = (name: 'p50_ms' | 'p99_ms', title: string): Column<Row>[] =>
    has(name)
      ? [
          {
            name: title,
            isWide: true,
            value: ({ numbers }) => numbers[name],
            cell: ({ numbers }) => bound(numbers[name]),
          },
        ]
      : []
  return [
    {
      name: 'destination',
      isText: true,
      value: ({ id }) => id,
      cell: ({ id, type }) => (
        <>
          <b>{id}</b> <span class="dim">{type}</span>
        </>
      ),
    },
    {
      name: 'state',
      isText: true,
      isWide: true,
      grows: true,
      value: ({ id, state }) => (state !== 'ready' ? 2 : waitText(id) === undefined ? 0 : 1),
      cell: one => <State of={one} />,
    },
    { name: 'out/s', value: ({ id }) => rates.value.get(id)?.sent, cell: ({ id }) => rate(rates.value.get(id)?.sent) },
    {
      name: 'requests',
      isWide: true,
      value: ({ numbers }) => numbers.in_flight,
      cell: ({ numbers: { in_flight, allowed } }) =>
        in_flight === undefined ? '–' : `${in_flight}${allowed === undefined ? '' : ` of ${allowed}`}`,
    },
    ...latency('p50_ms', 'p50'),
    ...latency('p99_ms', 'p99'),
    {
      name: 'in flight',
      isWide: true,
      value: ({ id }) => countsOf(id).in_flight,
      cell: ({ id }) => grouped(countsOf(id).in_flight),
    },
    { name: 'oldest event', value: oldestOf, cell: one => ms(oldestOf(one)) },
    {
      name: 'buffer',
      isWide: true,
      value: ({ numbers }) => numbers.buffered_bytes,
      cell: ({ numbers: { buffered_bytes, buffer_max_bytes } }) =>
        buffered_bytes === undefined
          ? '–'
          : `${bytes(buffered_bytes)}${buffer_max_bytes ? ` (${percentText(buffered_bytes / buffer_max_bytes)})` : ''}`,
    },
    {
      name: 'rejected',
      value: ({ letters }) => letters,
      cell: ({ letters }) => (letters > 0 ? <StateMark level="error">{grouped(letters)}</StateMark> : '0'),
    },
  ]
}

/** Shows the rejected events of a destination, with the messages of the receiver. */
function Refusals({ id }: { id: string }) {
  const letters = useData<ShownLetters>('dead-letters', { component: id }, EVERY_MS)
  const evidence = useData<Evidence>('evidence', { component: id, limit: 20 }, EVERY_MS)
  const error = letters.error ?? evidence.error
  const retry = () => {
    letters.retry()
    evidence.retry()
  }
  return (
    <div class="opened">
      <p>
        <a href={link('component', id)}>All numbers and the configuration of {id}</a>
      </p>
      {error !== undefined && <FailureNote error={error} retry={retry} />}
      {letters.data && letters.data.total === 0 && <p>Its dead-letter queue is empty.</p>}
      {letters.data && letters.data.total > 0 && (
        <>
          <p>
            {countedWhole(letters.data.total, 'event')} in the dead-letter queue. To send{' '}
            {letters.data.total === 1 ? 'it' : 'them'} again, when the cause is corrected:{' '}
            <CopyableCommand text={letters.data.command} />
          </p>
          {!letters.data.all && <p>Of the newest {grouped(letters.data.looked_at)}:</p>}
          <ul class="events">
            {letters.data.reasons.map(({ reason, words, count, newest_at, sample }) => (
              <li key={reason}>
                <p>
                  <b class="number">{grouped(count)}</b> <b>{reason}</b> <Prose of={words} />{' '}
                  {newest_at && <span class="dim">last at {clock(newest_at)}</span>}
                </p>
                {sample !== undefined && <Event of={sample} />}
              </li>
            ))}
          </ul>
        </>
      )}
      {evidence.data && evidence.data.events.length === 0 && <p>It has not rejected events lately.</p>}
      {evidence.data && evidence.data.events.length > 0 && (
        <>
          <h2>Last rejected events</h2>
          <ul class="events">
            {evidence.data.events.map((one, i) => (
              <li key={i}>
                <p>
                  <span class="dim number">{clock(one.at)}</span> <b>{one.reason}</b> <Prose of={one.words} />
                </p>
                <Event of={one.event} />
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}

interface Behind {
  readonly source: string
  readonly path: string
  readonly unread: number
  /** Bytes per second by which `unread` shrinks; undefined: not known yet. */
  readonly shrinks: number | undefined
}

/** Files with unread bytes, and how fast these have shrunk since the view was opened, or since they last reached 0. */
function useBehind(backlog: PageStatus['backlog'] | undefined, at: string | undefined): Behind[] {
  const seen = useRef(new Map<string, { at: number; unread: number }>())
  const before = seen.current
  // Without the files that are read to their ends: a later backlog of these is measured from its own beginning.
  if (backlog) seen.current = new Map()
  return (backlog ?? []).map(({ component: source, name: path, bytes: unread }) => {
    const key = `${source} ${path}`
    const time = Date.parse(at ?? '')
    const first = before.get(key) ?? { at: time, unread }
    seen.current.set(key, first)
    const passed = (time - first.at) / 1000
    return { source, path, unread, shrinks: passed < 1 ? undefined : (first.unread - unread) / passed }
  })
}

const behindColumns: readonly Column<Behind>[] = [
  { name: 'file', isText: true, grows: true, value: ({ path }) => path, cell: ({ path }) => path },
  {
    name: 'source',
    isText: true,
    value: ({ source }) => source,
    cell: ({ source }) => <a href={link('component', source)}>{source}</a>,
  },
  { name: 'unread', value: ({ unread }) => unread, cell: ({ unread }) => bytes(unread) },
  {
    name: 'caught up',
    value: ({ unread, shrinks }) => (shrinks === undefined || shrinks <= 0 ? undefined : unread / shrinks),
    cell: ({ unread, shrinks }) =>
      shrinks === undefined ? (
        <span class="dim">measuring</span>
      ) : shrinks <= 0 ? (
        <StateMark level="warning">it does not catch up</StateMark>
      ) : (
        `in about ${durationText((unread / shrinks) * 1000)}`
      ),
  },
]

export function DeliveryPanel() {
  const { data } = useData<PageStatus>('status', {}, EVERY_MS)
  const behind = useBehind(data?.backlog, data?.at)
  const rows = rowsOf()
  const found = rows.filter(({ id, type, state, reason = '' }) =>
    matches(`${id} ${type} ${waitText(id) ?? state} ${reason}`, filter.value),
  )
  const { id } = currentRoute.value
  return (
    <>
      <ProblemList />
      <div class="tools">
        <h1>Delivery</h1>
        <Filter
          label="filter destinations"
          value={filter.value}
          change={text => (filter.value = text)}
          shown={`${found.length} of ${countedWhole(rows.length, 'destination')}`}
        />
      </div>
      <div class={isFresh.value ? '' : 'stale'}>
        <Table
          name="delivery"
          label="Destinations"
          columns={columnsOf(rows)}
          rows={found}
          keyOf={one => one.id}
          order={{ by: 'state', down: true }}
          href={one => (one.id === id ? link('delivery') : link('delivery', one.id))}
          under={one => (one.state !== 'ready' || waitText(one.id) !== undefined) && <State of={one} />}
          below={one => one.id === id && <Refusals id={one.id} />}
        />
      </div>
      <h2>Files behind</h2>
      {behind.length === 0 ? (
        <p class="dim">{data ? 'Every file is read to its end.' : 'asking'}</p>
      ) : (
        <Table
          name="behind"
          label="Files behind"
          columns={behindColumns}
          rows={behind}
          keyOf={({ source, path }) => `${source} ${path}`}
          order={{ by: 'unread', down: true }}
        />
      )}
    </>
  )
}
