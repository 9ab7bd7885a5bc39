import { useData } from '../kit/data.js'
import { CopyButton, FailureNote, Filter, matches, Prose, StateMark } from '../kit/parts.js'
import { Plot } from '../kit/plot.js'
import { adjust, currentRoute, link } from '../kit/route.js'
import { stored } from '../kit/stored.js'
import { Table } from '../kit/table.js'
import { clock, countedWhole, durationText, grouped, rate } from '../kit/words.js'
import { Event, ruleText } from './event.js'
import { discardsOf, inputParts } from './flow.js'
import { health } from './health.js'
import { countsOf, endedOf, isFresh, rates, rateUnit, smoothed, status } from './live.js'
import { ProblemList } from './problems.js'
import { Uncounted } from './throttle.js'
import type { Detail, Evidence, History, KeyEvents, ShownThrottle } from './types.js'
import { HowToChange } from './what-if.js'

const HISTORY_MS = 15_000
const DETAIL_MS = 5000
const COUNTS_MS = 2000

const filter = stored('series.filter', '')

export function Component() {
  const id = currentRoute.value.id ?? ''
  const path = encodeURIComponent(id)
  const detail = useData<Detail>(`components/${path}`, {}, DETAIL_MS)
  const of = status.value?.components.find(one => one.id === id)
  if (status.value && !of) return detail.error === undefined ? null : <FailureNote error={detail.error} />
  const known = new Set(status.value?.components.map(one => one.id))
  const inputs = (of?.inputs ?? []).map(input => inputParts(input, known)[0])
  const readers = (status.value?.components ?? []).filter(one =>
    one.inputs?.some(input => inputParts(input, known)[0] === id),
  )
  const isSide = of?.kind === 'destination'
  return (
    <>
      <div class="tools">
        <h1>{id}</h1>
        <span class="dim">
          {of?.type} {of?.kind}
        </span>
        <a href={link('flow', undefined, { path: id })}>its path</a>
        <a href={link('tail', id)}>its events</a>
        {of?.type === 'throttle' && <a href={link('throttle', id)}>its buckets, and what if</a>}
        {isSide && <a href={link('delivery', id)}>its rejected events</a>}
      </div>
      <p class="dim">{detail.data && <Prose of={detail.data.summary} />}</p>
      <ProblemList of={id} />
      {(health.value.get(id) ?? [])
        .filter(({ isProblem }) => !isProblem)
        .map(({ level, words }) => (
          <p key={words}>
            <StateMark level={level}>{words}</StateMark>
          </p>
        ))}
      <Numbers id={id} />
      <p>
        {inputs.length > 0 && <Links label="reads from" ids={inputs} />}{' '}
        {readers.length > 0 && <Links label="read by" ids={readers.map(one => one.id)} />}
      </p>
      <Plots id={id} />
      <Reasons id={id} />
      {detail.error !== undefined && <FailureNote error={detail.error} retry={detail.retry} />}
      {detail.data && <Configuration of={detail.data} />}
      {detail.data && <Series of={detail.data} />}
    </>
  )
}

function Links({ label, ids }: { label: string; ids: readonly string[] }) {
  return (
    <span>
      <span class="dim">{label}</span>{' '}
      {ids.map((id, i) => (
        <>
          {i > 0 && ', '}
          <a href={link('component', id)}>{id}</a>
        </>
      ))}
    </span>
  )
}

function Numbers({ id }: { id: string }) {
  const counts = countsOf(id)
  const of = rates.value.get(id)
  return (
    <dl class={isFresh.value ? 'numbers' : 'numbers stale'}>
      {(['received', 'sent', 'discarded', 'in_flight'] as const).map(name => (
        <div key={name}>
          <dt>{name.replace('_', ' ')}</dt>
          <dd>
            <b class="number" data-count={name}>
              {grouped(counts[name])}
            </b>{' '}
            {name !== 'in_flight' && <span class="dim number">{rate(of?.[name])}</span>}
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Plots({ id }: { id: string }) {
  const { data, error } = useData<History>('history', { component: id }, HISTORY_MS)
  if (error !== undefined) return <FailureNote error={error} />
  if (!data) return null
  const from = new Date(data.from).getTime()
  const all = data.values.received.map((_, i) => from + i * data.step_ms)
  const at = all.slice(0, endedOf(all, data.step_ms))
  const of = (name: keyof History['values']) => data.values[name].slice(0, at.length)
  const rateOf = (name: keyof History['values']) => smoothed(of(name), data.step_ms)
  if (at.length < 2) return <p class="dim">The plots of the last hour begin in a moment.</p>
  return (
    <div class="columns">
      <Plot
        label={`the last ${durationText(at.length * data.step_ms)}, ${rateUnit(data.step_ms)}`}
        at={at}
        curves={[
          { label: 'received', values: rateOf('received'), colour: 'area', isArea: true },
          { label: 'sent', values: rateOf('sent'), colour: 'accent' },
          { label: 'discarded', values: rateOf('discarded'), colour: 'ink', dash: [3, 3] },
        ]}
      />
      <Plot
        label="events in flight"
        at={at}
        curves={[{ label: 'in flight', values: of('in_flight'), colour: 'accent' }]}
      />
    </div>
  )
}

/** Shows why events were discarded. A click shows the last of these events. */
function Reasons({ id }: { id: string }) {
  const { reason, bucket } = currentRoute.value.params
  const reasons = discardsOf(id)
  const isOpen = reason !== undefined || bucket !== undefined
  if (reasons.length === 0 && !isOpen) return null
  return (
    <section aria-label="Discarded events">
      <h2>Discarded</h2>
      <ul class="reasons">
        {reasons.map(([name, count]) => (
          <li key={name}>
            <b class="number">{grouped(count)}</b> {name}{' '}
            <button
              type="button"
              aria-expanded={reason === name}
              onClick={() => adjust({ reason: reason === name ? undefined : name, bucket: undefined })}
            >
              last events
            </button>
          </li>
        ))}
      </ul>
      {bucket !== undefined && <Counts id={id} bucket={bucket} />}
      {isOpen && <Last id={id} reason={reason} bucket={bucket} />}
    </section>
  )
}

/** Shows how many events of a bucket passed, and how many were discarded. */
function Counts({ id, bucket }: { id: string; bucket: string }) {
  const { data } = useData<ShownThrottle>(`throttles/${encodeURIComponent(id)}`, { key: bucket }, COUNTS_MS)
  const [one] = data?.keys ?? []
  if (!one) return data ? <Uncounted of={data} /> : null
  const about = data?.counted?.exact ? '' : 'about '
  const said = ({ passed, discarded }: KeyEvents) =>
    `${about}${grouped(passed)} passed, ${grouped(discarded)} discarded`
  return (
    <p class="number">
      Last minute: {said(one.last_minute)}. Last ten minutes: {said(one.ten_minutes)}.
    </p>
  )
}

function Last({ id, reason, bucket }: { id: string; reason: string | undefined; bucket: string | undefined }) {
  const { data, error, retry } = useData<Evidence>('evidence', { component: id, reason, bucket, limit: 20 })
  if (error !== undefined) return <FailureNote error={error} retry={retry} />
  if (!data) return <p class="dim">asking</p>
  return (
    <>
      <p class="dim">
        {bucket !== undefined && `Of the bucket ${bucket || '(default)'}. `}
        {data.events.length === 0
          ? 'No events of this kind are kept'
          : `The last ${countedWhole(data.events.length, 'event')}`}
        {data.from && `; kept since ${clock(data.from)}`}.{' '}
        <button type="button" onClick={retry}>
          look again
        </button>
      </p>
      <ul class="events">
        {data.events.map((one, i) => (
          <li key={i}>
            <p>
              <span class="dim number">{clock(one.at)}</span> <b>{one.reason}</b> <Prose of={one.words} />
              {ruleText(one)}
            </p>
            <Event of={one.event} />
          </li>
        ))}
      </ul>
    </>
  )
}

function Configuration({ of }: { of: Detail }) {
  const { config } = of
  return (
    <section aria-label="Configuration">
      <h2>
        Configuration <CopyButton text={config} label="copy YAML" what="of this component" />
      </h2>
      <HowToChange of={of} />
      {of.file !== undefined && of.docs && <p class="dim">Its options are described in {of.docs}.</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <pre tabIndex={0}>{config}</pre>
    </section>
  )
}

type Row = Detail['series'][number]

const labelsOf = ({ labels }: Row) =>
  Object.entries(labels)
    .filter(([name]) => !/^component_/.test(name))
    .map(([name, value]) => `${name}="${value}"`)
    .join(' ')

function Series({ of: { series } }: { of: Detail }) {
  const found = series.filter(one => matches(`${one.name} ${labelsOf(one)}`, filter.value))
  return (
    <section aria-label="Series">
      <div class="tools">
        <h2>Its series on /metrics</h2>
        <Filter
          label="filter series"
          value={filter.value}
          change={text => (filter.value = text)}
          shown={`${found.length} of ${series.length}`}
        />
      </div>
      <Table
        name="series"
        label="Series"
        rows={found}
        keyOf={one => `${one.name} ${labelsOf(one)}`}
        order={{ by: 'name', down: false }}
        columns={[
          {
            name: 'name',
            isText: true,
            value: ({ name }) => name,
            cell: ({ name, help }) => <span title={help}>{name}</span>,
          },
          { name: 'labels', isText: true, grows: true, value: labelsOf, cell: labelsOf },
          {
            name: 'value',
            value: ({ value }) => value,
            cell: ({ value }) => (Number.isInteger(value) ? grouped(value) : value.toPrecision(4)),
          },
        ]}
      />
    </section>
  )
}
