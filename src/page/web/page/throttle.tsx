import { signal } from '@preact/signals'
import { useData } from '../kit/data.js'
import { FailureNote, Filter, StateMark } from '../kit/parts.js'
import { Spark } from '../kit/plot.js'
import { adjust, currentRoute, link } from '../kit/route.js'
import { type Column, Table } from '../kit/table.js'
import { clock, countedWhole, durationText, grouped, percentText, rate, shortNumber, visible } from '../kit/words.js'
import { isFresh, now, status } from './live.js'
import type { Bucket, ShownThrottle as ThrottleOf } from './types.js'
import { WhatIfForm } from './what-if.js'

const EVERY_MS = 2000
/** Delay between the last typed key and the request. */
const SETTLED_MS = 150
/** Maximum buckets to request: those with the most pressure. */
const MOST_BUCKETS = 500

/** The condition for events that summarize discarded events. */
const SUMMARIES = '.throttle.discarded_events exists'

export const bucketTitle = ({ key }: Bucket) => (key === null ? '(default bucket)' : visible(key))

/** Shows the pressure on the limit, and the share of events that was discarded in the last minute. */
function Pressure({ of }: { of: Bucket }) {
  const { limit, window_ms, pressure, passed, discarded } = of
  const share = discarded > 0 ? discarded / (passed + discarded) : 0
  return (
    <span class="pressure">
      <span class={pressure >= 1 ? 'bar full' : 'bar'}>
        <span style={{ width: `${Math.min(100, pressure * 100)}%` }} />
      </span>
      <span class="number">
        {percentText(pressure)}
        {limit !== undefined && ` of ${shortNumber(limit)} in ${durationText(window_ms!)}`}
      </span>{' '}
      {pressure >= 1 && (
        <StateMark level="warning">{share > 0 ? `discards ${percentText(share)}` : 'at the limit'}</StateMark>
      )}
    </span>
  )
}

/** Columns with the numbers of passed and discarded events. The columns for ten minutes also have curves. */
const counts = (time: string, name: 'last_minute' | 'ten_minutes'): Column<Bucket>[] =>
  (['passed', 'discarded'] as const).map(what => ({
    name: `${what}, ${time}`,
    isWide: true,
    value: one => one[name][what],
    cell: one => (
      <>
        {grouped(one[name][what])}{' '}
        {name === 'ten_minutes' && one.history && <Spark values={one.history[what]} label="in the last ten minutes" />}
      </>
    ),
  }))

const columns: readonly Column<Bucket>[] = [
  { name: 'key', isText: true, value: bucketTitle, cell: one => <b>{bucketTitle(one)}</b> },
  {
    name: 'pressure',
    isText: true,
    isWide: true,
    value: ({ pressure }) => pressure,
    cell: one => <Pressure of={one} />,
  },
  ...counts('1 min', 'last_minute'),
  { name: 'passed/s', value: ({ passed }) => passed, cell: ({ passed }) => rate(passed) },
  { name: 'discarded/s', value: ({ discarded }) => discarded, cell: ({ discarded }) => rate(discarded) },
  {
    name: 'discards since',
    isWide: true,
    value: ({ since }) => (since ? Date.parse(since) : undefined),
    cell: ({ since }) => (since ? `${clock(since)} (${durationText(now.value - Date.parse(since))})` : '–'),
  },
  ...counts('10 min', 'ten_minutes'),
]

/** Shows what the throttle itself knows about a bucket whose events the page does not count by key. */
export function Uncounted({ of: { id, uncounted, counted: by } }: { of: ThrottleOf }) {
  if (!uncounted) return null
  const { key, used, limit, window_ms, unit, discarded_last_hour: lost, discarded_since, is_exact } = uncounted
  return (
    <p role="status">
      <b>{visible(key)}</b>{' '}
      {by?.exact
        ? `had no event since ${clock(by.from)}.`
        : `is not one of the ${by ? grouped(by.most_keys) : ''} busiest keys, and the page counts only these.`}{' '}
      {limit === undefined || used === undefined || window_ms === undefined
        ? 'Its limit depends on other fields of the events.'
        : `Its bucket has now used ${grouped(used)} of ${grouped(limit)} ${unit} in ${durationText(window_ms)}.`}{' '}
      The throttle discarded {is_exact ? '' : 'about '}
      {grouped(lost)} of its events since {clock(discarded_since)}.{' '}
      {lost > 0 && <a href={link('component', id, { bucket: key })}>show the last discarded events</a>}
    </p>
  )
}

export const throttles = () =>
  (status.value?.components ?? []).filter(({ type }) => type === 'throttle').map(({ id }) => id)

/** Limits in words, such as `20 events in 1s (aligned)`. */
const limitsOf = ({ limits }: ThrottleOf) =>
  limits
    .map(
      ({ limit, unit = 'events', window_ms, mode }) =>
        `${grouped(limit)} ${unit} in ${durationText(window_ms)} (${mode})`,
    )
    .join(', ')

/** The filter of each throttle, while the page is open. A filter in the address takes precedence. */
const filters = signal<Readonly<Record<string, string>>>({})

export function ThrottlePanel() {
  const all = throttles()
  const id = currentRoute.value.id ?? all[0]
  const filter = currentRoute.value.params.key ?? filters.value[id ?? ''] ?? ''
  const { data, error, retry } = useData<ThrottleOf>(
    id && `throttles/${encodeURIComponent(id)}`,
    { limit: MOST_BUCKETS, q: filter },
    EVERY_MS,
    SETTLED_MS,
  )
  if (status.value && all.length === 0)
    return (
      <>
        <h1>Throttle</h1>
        <p>
          This configuration has no throttle. Here is an example; <a href={link('flow')}>Flow</a> names the component to
          put in inputs:
        </p>
        <pre>
          {
            'processors:\n  limit_app:\n    type: throttle\n    inputs: [my_source]\n    limit: 100\n    window: 1 Seconds\n    key_field: .app'
          }
        </pre>
      </>
    )
  if (id === undefined) return <p class="dim">waiting for the daemon</p>
  const setFilter = (text: string) => {
    if (currentRoute.value.params.key !== undefined) adjust({ key: undefined })
    filters.value = { ...filters.value, [id]: text }
  }
  return (
    <>
      <div class="tools">
        <h1>
          <a href={link('component', id)}>{id}</a>
        </h1>
        {all.length > 1 && (
          <label>
            throttle{' '}
            <select value={id} onChange={event => (location.hash = link('throttle', event.currentTarget.value))}>
              {all.map(one => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        )}
        <Filter
          label="filter keys"
          value={filter}
          change={setFilter}
          shown={data ? `${grouped(data.found)} of ${grouped(data.searched)}` : ''}
        />
      </div>
      {data && (
        <p class="dim">
          {limitsOf(data)}
          {data.rules > 0 && `, ${countedWhole(data.rules, 'rule')}`}, by{' '}
          {data.key_field.join(', ') || 'no key: one bucket for all'}. Rates and pressure are those of the last minute.{' '}
          {countedWhole(data.buckets, 'bucket')} in use
          {data.max_keys !== undefined &&
            ` of at most ${grouped(data.max_keys)} (${percentText(data.buckets / data.max_keys)})`}
          {data.searched < data.buckets && `; the filter searches the ${grouped(data.searched)} busiest`}
          {data.keys.length < data.found && `; the list shows the ${grouped(data.keys.length)} with the most pressure`}.{' '}
          {data.counted && !data.counted.exact && `Counted: ${data.counted.of}. `}
          {data.summary_ms !== undefined && (
            <>
              Every {durationText(data.summary_ms)} it emits a summary of the events that each bucket discarded:{' '}
              <a href={link('tail', id, { where: SUMMARIES })}>show the summaries</a>.
            </>
          )}
        </p>
      )}
      {error !== undefined && <FailureNote error={error} retry={retry} />}
      {data && (
        <div class={isFresh.value ? '' : 'stale'}>
          <Uncounted of={data} />
          <Table
            name="throttle"
            label={`Buckets of ${id}`}
            columns={columns}
            rows={data.keys}
            keyOf={({ key }) => `${key}`}
            order={{ by: 'pressure', down: true }}
            href={({ key }) => link('component', id, { bucket: key ?? '' })}
            under={one => <Pressure of={one} />}
          />
        </div>
      )}
      {data && <WhatIfForm key={id} throttle={data} />}
    </>
  )
}
