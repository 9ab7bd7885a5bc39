import { signal } from '@preact/signals'
import { link } from '../kit/route.js'
import { durationText, grouped, rate } from '../kit/words.js'
import { countsOf, flow, isFresh, now, second, status } from './live.js'
import type { Books as BooksOf } from './types.js'

/** Name of the number whose parts are shown; undefined: none. */
const open = signal<string | undefined>(undefined)

export const totalOf = (counts: Readonly<Record<string, number>> = {}) =>
  Object.values(counts).reduce((sum, one) => sum + one, 0)

type ByReason = BooksOf['discarded']

const eventsIn = (all: ByReason) => Object.values(all).reduce((sum, reasons) => sum + totalOf(reasons), 0)

/** Discarded events by what became of them. */
const fatesIn = ({ discarded, lost, kept }: BooksOf): { readonly [name: string]: ByReason } => {
  const isOther = (id: string, reason: string) => Boolean(lost[id]?.[reason] ?? kept[id]?.[reason])
  const wanted = Object.entries(discarded).map(([id, reasons]) => {
    return [id, Object.fromEntries(Object.entries(reasons).filter(([reason]) => !isOther(id, reason)))]
  })
  return { discarded: Object.fromEntries(wanted), rejected: kept, lost }
}

export const inFlight = ({ undelivered, in_flight }: BooksOf) => undelivered ?? in_flight ?? 0

interface Part {
  readonly sign: string
  readonly name: string
  readonly value: number
}

/** The parts of the sum: incoming events, and their outcomes. */
function partsOf(books: BooksOf): Part[] {
  const emitted = totalOf(books.emitted)
  const consumed = totalOf(books.consumed)
  return [
    { sign: '', name: 'received', value: books.received },
    ...(emitted > 0 ? [{ sign: '+', name: 'emitted', value: emitted }] : []),
    ...(books.passed === undefined ? [] : [{ sign: '=', name: 'passed', value: books.passed }]),
    ...Object.entries(fatesIn(books))
      .map(([name, all]) => ({ sign: books.passed === undefined ? '' : '+', name, value: eventsIn(all) }))
      .filter(({ name, value }) => name === 'discarded' || value > 0),
    ...(consumed > 0 ? [{ sign: '+', name: 'consumed', value: consumed }] : []),
    { sign: books.passed === undefined ? '' : '+', name: 'in flight', value: inFlight(books) },
    // If events take several paths, the deliveries are not part of a sum.
    ...(books.passed === undefined ? [{ sign: '', name: 'delivered', value: totalOf(books.delivered) }] : []),
  ]
}

/** The difference between both sides of the sum; 0 if the numbers are not a sum. */
function missingIn(books: BooksOf): number {
  if (books.passed === undefined) return 0
  const { received, passed, emitted, consumed } = books
  return received + totalOf(emitted) - passed - eventsIn(books.discarded) - totalOf(consumed) - inFlight(books)
}

/** Shows the line at the top of every view. */
export function BooksLine() {
  const books = second.value?.books ?? status.value?.books
  if (!books) return <p class="books dim">waiting for the first numbers</p>
  const missing = missingIn(books)
  const started = status.value?.started_at
  return (
    <section aria-label="The books" class={isFresh.value ? '' : 'stale'}>
      <div class="books">
        <span class="sum">
          {partsOf(books).map(({ sign, name, value }) => (
            <span key={name} class="part">
              <i>{sign}</i>
              <button
                type="button"
                aria-expanded={open.value === name}
                class={name === 'lost' ? 'mark error' : undefined}
                onClick={() => (open.value = open.value === name ? undefined : name)}
              >
                {name} <b data-number={name}>{grouped(value)}</b>
              </button>
            </span>
          ))}
          {missing !== 0 && (
            <span class="mark error" role="alert">
              <b>✕ {grouped(missing)} not accounted for</b>
            </span>
          )}
        </span>
        <span class="rates">
          <span>
            <b>{rate(flow.value.received)}</b> in
          </span>
          {books.passed !== undefined && (
            <span>
              <b>{rate(flow.value.passed)}</b> out
            </span>
          )}
          {started && (
            <span>
              up <b>{durationText(now.value - Date.parse(started))}</b>
            </span>
          )}
        </span>
      </div>
      {open.value && <Made name={open.value} books={books} />}
    </section>
  )
}

interface Row {
  readonly id: string
  readonly words?: string
  readonly value: number
  readonly href: string
}

/** Splits a number by component. */
function rowsOf(name: string, books: BooksOf): Row[] {
  const components = status.value?.components ?? []
  const of = (kind: string, value: (id: string) => number) =>
    components.filter(one => one.kind === kind).map(({ id }) => ({ id, value: value(id), href: link('component', id) }))
  const counts = (all: Readonly<Record<string, number>> = {}) =>
    Object.entries(all).map(([id, value]) => ({ id, value, href: link('component', id) }))
  switch (name) {
    case 'received':
      return of('source', id => countsOf(id).received)
    case 'passed':
    case 'delivered':
      return counts(books.delivered)
    case 'discarded':
    case 'rejected':
    case 'lost':
      return Object.entries(fatesIn(books)[name]!).flatMap(([id, reasons]) =>
        Object.entries(reasons).map(([words, value]) => ({
          id,
          words,
          value,
          href: link('component', id, { reason: words }),
        })),
      )
    case 'in flight':
      return components
        .map(({ id }) => ({ id, value: countsOf(id).in_flight, href: link('component', id) }))
        .filter(({ value }) => value > 0)
    default:
      return counts(name === 'emitted' ? books.emitted : books.consumed)
  }
}

const SAID: Readonly<Record<string, string>> = {
  received: 'Events that each source has read since the daemon started.',
  emitted: 'Events that processors have created.',
  passed: 'Events that each destination has accepted. An event may go to several destinations.',
  discarded: 'Events that limits and conditions discarded, by component and reason. Open one to see its last events.',
  rejected: 'Events that receivers rejected. They are in dead-letter queues, or components that read these got them.',
  lost: 'Events that were discarded although no limit or condition asked for it. Open one to see its last events.',
  delivered:
    'Events that each destination has accepted. An event can take several paths in this configuration, so the line has no sum.',
  consumed: 'Events that processors have merged into others.',
  'in flight':
    'Events within components now. Other events may be between components, and an event may wait in several destinations.',
}

function Made({ name, books }: { name: string; books: BooksOf }) {
  const rows = rowsOf(name, books).sort((a, b) => b.value - a.value)
  return (
    <div class="made">
      <p class="dim">{SAID[name]}</p>
      <ul>
        {rows.map(({ id, words, value, href }) => (
          <li key={`${id} ${words}`}>
            <a href={href}>{id}</a> {words} <b class="number">{grouped(value)}</b>
          </li>
        ))}
        {rows.length === 0 && <li class="dim">none</li>}
      </ul>
    </div>
  )
}
