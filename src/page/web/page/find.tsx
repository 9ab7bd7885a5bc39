import { useEffect, useRef, useState } from 'preact/hooks'
import { useData } from '../kit/data.js'
import { FailureNote, Prose, StateMark } from '../kit/parts.js'
import { adjust, currentRoute, link } from '../kit/route.js'
import { bytes, clock, countedWhole, durationText, visible } from '../kit/words.js'
import { Event, ruleText } from './event.js'
import { now, status } from './live.js'
import type { EventStep, Found } from './types.js'

const SIGNS: Readonly<Record<string, string>> = {
  read: '→',
  passed: '→',
  discarded: '✕',
  rejected: '✕',
  delivered: '✓',
}

const KINDS: Readonly<Record<string, string>> = {
  discarded: 'discarded events',
  rejected: 'rejected events',
  passed: 'events that passed',
}

/** For a destination, `passed` means only that the destination received the event. The event may still wait there. */
const fateOf = ({ component, what }: Pick<EventStep, 'component' | 'what'>) =>
  what === 'passed' && status.value?.components.some(({ id, kind }) => id === component && kind === 'destination')
    ? 'received'
    : what

function Way({ steps }: { steps: readonly EventStep[] }) {
  return (
    <ol class="way">
      {steps.map(({ at, component, what, reason, words, rule, bucket }, i) => (
        <li key={i}>
          <span class="number dim">{at === undefined ? '' : clock(at, now.value)}</span>
          <a href={link('component', component)}>{component}</a>
          <span>
            <b class={SIGNS[what] === '✕' ? 'error' : ''}>
              {SIGNS[what]} {fateOf({ component, what })}
            </b>
            {reason !== undefined && ` ${visible(reason)}`}
            {words !== undefined && ': '}
            <Prose of={words} />
            {ruleText({ rule, bucket })}
          </span>
        </li>
      ))}
    </ol>
  )
}

function Kept({ of: { looked_at } }: { of: Found }) {
  return (
    <ul>
      {looked_at.map(({ kind, from, kept, one_in, bytes: size }) => (
        <li key={kind}>
          {countedWhole(kept, 'event').replace(/events?$/, KINDS[kind] ?? kind)}
          {from !== null && ` since ${clock(from, now.value)} (${durationText(now.value - Date.parse(from))})`}
          {one_in !== undefined && one_in > 1 && `, one in ${one_in} kept`}
          {size !== undefined && `, ${bytes(size)}`}
        </li>
      ))}
    </ul>
  )
}

/** What the daemon has not read cannot be found. */
function Unread() {
  const files = status.value?.backlog ?? []
  if (files.length === 0) return null
  const most = files.reduce((a, b) => (b.bytes > a.bytes ? b : a))
  const others = files.length - 1
  return (
    <p>
      <StateMark level="note">
        Not read yet: {bytes(most.bytes)} of {visible(most.name)}
        {others > 0 && `, and of ${countedWhole(others, 'other file')}`}.
      </StateMark>{' '}
      An event there cannot be found. See <a href={link('delivery')}>files behind</a>.
    </p>
  )
}

/** Maximum events shown. More are too many to read. */
const MOST_FOUND = 20
/** Number of events whose paths are shown without a click. */
const MOST_OPEN = 10

function outcomeOf(steps: readonly EventStep[]): string {
  const last = steps.at(-1)
  if (!last) return 'no steps'
  if (last.what === 'read') return `read by ${last.component}; its further way is not known`
  return `${fateOf(last)}${last.reason === undefined ? '' : ` (${last.reason})`} by ${last.component}`
}

/** Shows the path of an event, and why it did not arrive. */
export function Find() {
  const { q = '' } = currentRoute.value.params
  const [text, setText] = useState(q)
  useEffect(() => setText(q), [q])
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (q === '') field.current?.focus()
  }, [])
  const { data, error, retry, isLoading } = useData<Found>(q === '' ? undefined : 'find', { q, limit: MOST_FOUND })
  const send = (event: SubmitEvent) => {
    event.preventDefault()
    if (text === q) retry()
    else adjust({ q: text })
  }
  const isDone = data !== undefined && error === undefined
  return (
    <>
      <h1>Find an event</h1>
      <search>
        <form class="tools" onSubmit={send}>
          <input
            ref={field}
            type="search"
            class="long"
            data-search
            aria-label="a text, an id, JSON, or a condition"
            placeholder="a text, an id, JSON, or a condition such as .app equal 'cart'"
            value={text}
            onInput={event => setText(event.currentTarget.value)}
          />
          <button type="submit">Find</button>
          {isLoading && q !== '' && <span class="dim">looking</span>}
        </form>
      </search>
      {q === '' && (
        <p class="dim">
          Shows the way of an event through the pipeline: which component passed it, which one discarded it, and why.
          The daemon searches the events that it keeps from the last minutes: discarded and rejected events first, then
          a sample of the events that passed.
        </p>
      )}
      {error !== undefined && q !== '' && <FailureNote error={error} retry={retry} />}
      {isDone && data.found.length === 0 && (
        <p role="status">
          {data.not_condition === undefined ? (
            <StateMark level="note">Not found.</StateMark>
          ) : (
            <StateMark level="error">
              Not found as a text, and it is not a condition: {visible(data.not_condition)}.
            </StateMark>
          )}{' '}
          The daemon may have had the event, but searched only
        </p>
      )}
      {isDone && data.found.length > 0 && (
        <p role="status">
          {countedWhole(data.found.length, 'event')}
          {data.more && ', and more: make the search narrower'}. The daemon searched
        </p>
      )}
      {isDone && <Kept of={data} />}
      {isDone && <Unread />}
      {isDone && (
        <ol class="found">
          {data.found.map(({ event, text: line, steps }, i) => (
            <li key={i} data-row tabIndex={-1}>
              <Event of={line ?? event} />
              <details open={i < MOST_OPEN}>
                <summary>{outcomeOf(steps)}</summary>
                <Way steps={steps} />
              </details>
            </li>
          ))}
        </ol>
      )}
    </>
  )
}
