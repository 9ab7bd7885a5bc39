import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { useData } from '../kit/data.js'
import { CopyButton, FailureNote, TextField } from '../kit/parts.js'
import { Plot } from '../kit/plot.js'
import { adjust, currentRoute } from '../kit/route.js'
import { clock, countedWhole, durationText, grouped, milliseconds, percentText, visible } from '../kit/words.js'
import { status } from './live.js'
import type { WhatIf as Answer, Detail, ShownThrottle, Values } from './types.js'

/** Steps of the slider per factor of ten. So each step changes the limit by the same factor. */
const STEPS = 10
const MOST_STEPS = 70
const limitAt = (step: number) => Number((10 ** (step / STEPS)).toPrecision(2))
const stepOf = (limit: number) => Math.round(Math.log10(Math.max(1, limit)) * STEPS)

const WINDOWS_MS = [100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000]
const windowStep = (ms: number) => WINDOWS_MS.findLastIndex(one => one <= ms)

/** Reads a limit; undefined if the text is not a number. */
function wholeOf(text: string | undefined): number | undefined {
  const value = Math.max(1, Math.round(Number(text)))
  return Number.isFinite(value) ? value : undefined
}

const written = (ms: number) => (ms % 60_000 === 0 ? `${ms / 60_000}m` : ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`)

const MODES = ['fixed', 'aligned', 'sliding', 'gcra', 'quota']
/** Delay between the last step of a slider and the request. */
const SETTLED_MS = 150
const EVERY_MS = 10_000

/** Returns the curve without an unfinished step. Such a step would look like a fall. `at`: when each step begins. */
function whole({ curve, to }: Answer) {
  const { step_ms, offered, was, would } = curve
  const at = offered.map((_, i) => curve.at + i * step_ms)
  const isOpen = (at.at(-1) ?? 0) + step_ms > Date.parse(to)
  const cut = (values: readonly number[]) => (isOpen ? values.slice(0, -1) : values)
  return { at: cut(at), step_ms, offered: cut(offered), was: cut(was), would: cut(would) }
}

const perSecond = (values: Values, step_ms: number): Values =>
  values.map(value => (value === null ? null : (value * 1000) / step_ms))

const NAMES = ['limit', 'window', 'mode', 'key_field', 'exclude'] as const

/** Options that differ from those of the throttle, as texts in the address. */
type Tried = Partial<Record<(typeof NAMES)[number], string | undefined>>

/** The options tried for each throttle, while the tab is open. */
const tried = signal<Readonly<Record<string, Tried>>>({})

/** Keeps the tried options in the address, so a link contains them. */
function useTried(id: string): readonly [Tried, (change: Tried) => void] {
  const given: Tried = Object.fromEntries(NAMES.map(name => [name, currentRoute.value.params[name]]))
  const address = JSON.stringify(given)
  const now = tried.value[id] ?? given
  const text = JSON.stringify(now)
  useEffect(() => {
    if (address !== '{}') tried.value = { ...tried.value, [id]: given }
  }, [id, address])
  useEffect(() => {
    // A slider has many steps, and browsers allow only a few changes of the address per second.
    const timer = setTimeout(() => {
      if (text !== address) adjust(Object.fromEntries(NAMES.map(name => [name, now[name]])))
    }, SETTLED_MS)
    return () => clearTimeout(timer)
  }, [id, address, text])
  return [now, change => (tried.value = { ...tried.value, [id]: { ...now, ...change } })]
}

/** Shows how many events of the last minutes would have passed with another limit. Does not change anything. */
export function WhatIfForm({ throttle }: { throttle: ShownThrottle }) {
  const [first] = throttle.limits
  const [now, change] = useTried(throttle.id)
  const own = { limit: first?.limit ?? 100, window: written(first?.window_ms ?? 1000), mode: first?.mode ?? 'fixed' }
  const limit = wholeOf(now.limit) ?? own.limit
  const { window = own.window, mode = own.mode, key_field: field = '', exclude = '' } = now
  const setLimit = (value: number) => change({ limit: value === own.limit ? undefined : `${value}` })
  const setWindow = (text: string) => change({ window: text === own.window ? undefined : text })
  const setMode = (text: string) => change({ mode: text === own.mode ? undefined : text })
  const ms = milliseconds(window)
  const same = throttle.key_field.join(', ')
  const params = {
    component: throttle.id,
    limit,
    window,
    mode: mode === own.mode ? undefined : mode,
    key_field: field === same ? undefined : field,
    exclude,
  }
  const { data, error, retry, isLoading } = useData<Answer>('what-if', params, EVERY_MS, SETTLED_MS)
  return (
    <section aria-label="What if" class="what-if">
      <h2>What if the limit were different?</h2>
      <p class="dim">Computed from the events of the last minutes. It changes nothing in the daemon.</p>
      <form class="sliders" onSubmit={event => event.preventDefault()}>
        <label>
          limit
          <input
            type="range"
            min="0"
            max={MOST_STEPS}
            value={stepOf(limit)}
            aria-valuetext={`${grouped(limit)} events`}
            onInput={event => setLimit(limitAt(Number(event.currentTarget.value)))}
          />
        </label>
        <input
          type="number"
          min="1"
          aria-label="limit as a number"
          value={limit}
          onInput={event => setLimit(Math.max(1, Math.round(Number(event.currentTarget.value))))}
        />
        <label>
          window
          <input
            type="range"
            min="0"
            max={WINDOWS_MS.length - 1}
            value={windowStep(ms ?? 1000)}
            aria-valuetext={window}
            onInput={event => setWindow(written(WINDOWS_MS[Number(event.currentTarget.value)]!))}
          />
        </label>
        <TextField
          isNamed={false}
          label="window as a duration"
          value={window}
          isInvalid={ms === undefined}
          enter={setWindow}
        />
        <label>
          mode{' '}
          <select value={mode} onChange={event => setMode(event.currentTarget.value)}>
            {[...new Set([mode, ...MODES])].map(one => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <TextField
          label="key field"
          placeholder={same || 'none'}
          value={field}
          enter={text => change({ key_field: text || undefined })}
        />
        <TextField
          label="exclude"
          placeholder="if (.level equal 'error')"
          value={exclude}
          size={26}
          enter={text => change({ exclude: text || undefined })}
        />
      </form>
      {error !== undefined && <FailureNote error={error} retry={retry} />}
      {data && error === undefined && (
        <div class={isLoading && data.events === 0 ? 'stale' : ''}>
          <Result id={throttle.id} data={data} />
        </div>
      )}
    </section>
  )
}

function Result({ id, data }: { id: string; data: Answer }) {
  const { was, would, events, from, to, exact, why_not_exact, keys, keys_count = 0, yaml, since } = data
  const isChanged = yaml !== ''
  const { data: detail } = useData<Detail>(isChanged ? `components/${encodeURIComponent(id)}` : undefined)
  const outcome = isChanged ? would : was
  const curve = whole(data)
  const change = would.discarded - was.discarded
  const about = exact ? '' : 'about '
  const shown = (count: number) => `${about}${grouped(count)}`
  const said =
    change === 0 ? `${about}as many as now` : `${shown(Math.abs(change))} ${change > 0 ? 'more' : 'fewer'} than now`
  return (
    <>
      <p class="verdict" role="status">
        Of <b class="number">{grouped(events)}</b> events it {isChanged ? 'would have passed' : 'passed'}{' '}
        <b class="number">{shown(outcome.passed)}</b> and discarded <b class="number">{shown(outcome.discarded)}</b>
        {events > 0 && ` (${percentText(outcome.discarded / events)})`}
        {isChanged ? `: ${said}.` : ', with the limit that it has.'}
      </p>
      <p class="dim">
        From {clock(from)} to {clock(to)} ({durationText(Date.parse(to) - Date.parse(from))})
        {since && `; counted this way since ${clock(since)}`}.{' '}
        {exact
          ? 'Exact: each event counts at the time it arrived. (In sluice simulate: at its own time.)'
          : `An estimate${why_not_exact ? `: ${why_not_exact}` : ''}.`}
      </p>
      <Plot
        label="events per second"
        at={curve.at}
        height={160}
        curves={[
          { label: 'offered', values: perSecond(curve.offered, curve.step_ms), colour: 'area', isArea: true },
          { label: 'passed, as it was', values: perSecond(curve.was, curve.step_ms), colour: 'ink', dash: [4, 3] },
          { label: 'passed, as it would be', values: perSecond(curve.would, curve.step_ms), colour: 'accent' },
        ]}
      />
      <div class="columns">
        <div>
          <h3>Keys that gain or lose</h3>
          <table class="rows" aria-label="Keys that gain or lose">
            <thead>
              <tr>
                <th scope="col" class="text">
                  key
                </th>
                <th scope="col">offered</th>
                <th scope="col">passed</th>
                <th scope="col">would pass</th>
                <th scope="col">change</th>
              </tr>
            </thead>
            <tbody>
              {keys.map(one => (
                <tr key={`${one.key}`}>
                  <th scope="row" class="text">
                    {one.key === null ? '(default bucket)' : visible(one.key)}
                  </th>
                  <td>{grouped(one.offered)}</td>
                  <td>{grouped(one.was)}</td>
                  <td>{grouped(one.would)}</td>
                  <td>{signed(one.would - one.was)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {keys_count > keys.length && <p class="dim">of {countedWhole(keys_count, 'key')}</p>}
        </div>
        <div>
          <h3>
            Configuration{' '}
            {isChanged && <CopyButton text={inConfiguration(id, yaml)} label="copy YAML" what="of this throttle" />}
          </h3>
          {isChanged ? (
            <>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
              <pre tabIndex={0}>{inConfiguration(id, yaml)}</pre>
              {detail && <HowToChange of={detail} />}
            </>
          ) : (
            <p class="dim">The configuration is not changed. Move a slider to see the effect.</p>
          )}
        </div>
      </div>
    </>
  )
}

/** Says how to change the options of a component. */
export function HowToChange({ of: { file, line } }: { of: Detail }) {
  if (file === undefined) return null
  return (
    <p class="dim">
      Change it in {file}
      {line !== undefined && `, line ${line}`}. Then run <code>sluice validate {status.value?.config ?? file}</code>,
      and reload the daemon with <code>systemctl reload sluice</code> or the signal SIGHUP.
    </p>
  )
}

/** Shows options at their place in the configuration. */
const inConfiguration = (id: string, yaml: string) =>
  `processors:\n  ${id}:\n${yaml.trimEnd().replace(/^/gm, '    ')}\n`

const signed = (value: number) => (value === 0 ? '0' : `${value > 0 ? '▲ +' : '▼ −'}${grouped(Math.abs(value))}`)
