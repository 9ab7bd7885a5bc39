import { isDeepStrictEqual } from 'node:util'
import { ConditionError } from '../../../core/condition/cursor.js'
import { OPERATORS } from '../../../core/condition/operators.js'
import { conditionOnLines } from '../../../daemon/admin/tap.js'
import type { Turn } from './budget.js'
import type { KeptEvidence } from './evidence.js'
import {
  type EventCursor,
  type EventFate,
  FATES,
  type KeptEvent,
  newestOf,
  placeNumber,
  READING_BYTES,
} from './kept-events.js'
import { QuestionError } from './question-error.js'

const MOST_FOUND = 100
const MOST_STEPS = 50
/** Number of events inspected between two checks of the clock. */
const BETWEEN = 64
const LF = Buffer.from('\n')
const ID = /^[\w-]{24}$/

/** The fate of an event in a component. `at`: ISO 8601. */
export type EventStep = Pick<KeptEvent, 'component' | 'what'> &
  Partial<Pick<KeptEvent, 'reason' | 'words' | 'rule' | 'bucket'>> & { readonly at: string }

export interface FoundEvent {
  /** Missing if the place where the event was read is unknown. */
  readonly id?: string
  /** Undefined if the event's text was cut. */
  readonly event?: unknown
  readonly text: string
  readonly steps: readonly EventStep[]
}

export interface LookedAt {
  readonly kind: 'discarded' | 'rejected' | 'passed'
  readonly from: string | null
  /** Number of distinct events. */
  readonly kept: number
  readonly one_in: number
  readonly bytes: number
}

export interface FoundEvents {
  readonly as: 'text' | 'condition' | 'id' | 'event'
  /** If the query was searched as a text, but resembles a condition: why it is not one. */
  readonly not_condition?: string
  readonly looked_at: readonly LookedAt[]
  readonly found: readonly FoundEvent[]
  readonly more: boolean
}

interface Test {
  readonly as: FoundEvents['as']
  readonly not_condition?: string
  readonly holds: (event: EventCursor) => boolean
  /** Whether an event for which `holds` may be in these bytes; undefined: in any. */
  readonly mayHold?: (bytes: Buffer) => boolean
}

const KINDS = ['discarded', 'rejected', 'passed'] as const

const kindOf = (what: EventFate) => (what === 'discarded' || what === 'rejected' ? what : 'passed')

/** For each kind of event, reports how many events are kept, and since when. */
function lookedAt(evidence: KeptEvidence, kept: (kind: LookedAt['kind']) => number): LookedAt[] {
  return KINDS.map(kind => {
    const { from, oneIn, bytes } = evidence[kind].about()
    const since = from === undefined ? null : new Date(from).toISOString()
    return { kind, from: since, kept: kept(kind), one_in: oneIn, bytes }
  })
}

/**
 * Finds events and the steps of each event, the newest event first. `query` is a text, a condition, an id, or a JSON
 * object with some fields of the event. Throws QuestionError.
 */
export async function find(evidence: KeptEvidence, query: string, turn: Turn, most = MOST_FOUND): Promise<FoundEvents> {
  const { as, not_condition, holds, mayHold } = testOf(query)
  const limit = Math.min(most, MOST_FOUND)
  const events = new Events()
  const see = (cursor: EventCursor) => {
    if (holds(cursor)) events.add(cursor)
    return events.size <= limit
  }
  await eachNewest(evidence, turn, see, mayHold)
  const distinct = { discarded: new Distinct(), rejected: new Distinct(), passed: new Distinct() }
  await eachNewest(evidence, turn, cursor => {
    events.addStep(cursor)
    if (cursor.hasText) distinct[kindOf(cursor.what)].add(cursor)
    return true
  })
  const found = events.found(limit)
  const looked_at = lookedAt(evidence, kind => distinct[kind].size)
  return { as, ...(not_condition && { not_condition }), looked_at, found, more: events.size > limit }
}

function testOf(query: string): Test {
  const text = query.trim()
  if (text === '') throw new QuestionError("q is missing: a text, a condition such as .level equal 'error', or an id")
  const given = text.startsWith('{') ? parsed(text) : undefined
  const hasText = textTest(text)
  const asText = { holds: (event: EventCursor) => hasText(event.text), mayHold: hasText }
  if (given !== undefined)
    return { as: 'event', holds: event => hasText(event.text) || hasFields(event, given as object) }
  if (ID.test(text)) {
    const place = placeNumber(Buffer.from(text, 'base64url'), 0)
    return { as: 'id', holds: event => (place !== 0 && event.place === place) || hasText(event.text) }
  }
  try {
    const condition = conditionOnLines(text)
    const holds = (event: EventCursor) => !event.isCut && event.hasText && condition(Buffer.concat([event.text, LF]))
    return { as: 'condition', holds }
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    const why = `${error.message} (column ${error.column})`
    if (/^if\s*\(/i.test(text)) throw new QuestionError(`the condition: ${why}`)
    const resembles = error.column > 1 || OPERATORS.has(text.split(/\s+/)[1] ?? '')
    return { as: 'text', ...asText, ...(resembles && { not_condition: why }) }
  }
}

/** Whether an event has all fields of `given`. The event may have more fields. */
function hasFields({ text, isCut }: EventCursor, given: object): boolean {
  if (isCut || text.length === 0) return false
  const fields = parsed(text.toString()) as Record<string, unknown> | undefined
  return Object.entries(given).every(([name, value]) => isDeepStrictEqual(fields?.[name], value))
}

/** Returns a function that tests whether bytes contain the text, literally or escaped as in a JSON string. */
function textTest(text: string): (bytes: Buffer) => boolean {
  const needles = new Set([text, JSON.stringify(text).slice(1, -1)])
  const all = [...needles].map(needle => Buffer.from(needle))
  return bytes => all.some(needle => bytes.includes(needle))
}

/** Shows the events of all kinds together, newest first, until `see` returns false. `mayHold`: as in Test. */
async function eachNewest(
  evidence: KeptEvidence,
  turn: Turn,
  see: (cursor: EventCursor) => boolean,
  mayHold?: Test['mayHold'],
): Promise<void> {
  const cursors = KINDS.flatMap(kind => evidence[kind].cursors())
  if (mayHold) for (const cursor of cursors) await cursor.keepOnly(mayHold, turn)
  let events = 0
  for (const cursor of newestOf(cursors)) {
    const pause = ++events % BETWEEN === 0 ? turn() : undefined
    if (pause) await pause
    if (!see(cursor)) return
  }
}

class Distinct {
  readonly #places = new Set<number>()
  /** Checksums of the events in `#places`. */
  readonly #sums = new Set<number>()
  /** Checksums of events whose places are not known. */
  readonly #placeless = new Set<number>()

  add({ place, sum }: EventCursor): void {
    if (place === 0) this.#placeless.add(sum)
    else {
      this.#places.add(place)
      this.#sums.add(sum)
    }
  }

  get size(): number {
    return this.#places.size + [...this.#placeless].filter(sum => !this.#sums.has(sum)).length
  }
}

interface Found {
  readonly id: Buffer
  readonly place: number
  text: Buffer
  isCut: boolean
  readonly steps: KeptEvent[]
}

class Events {
  readonly #all: Found[] = []
  readonly #byPlace = new Map<number, Found>()
  /** The first event with each checksum. */
  readonly #bySum = new Map<number, Found>()

  get size(): number {
    return this.#all.length
  }

  /** Adds an event, unless it was added before. */
  add({ id, place, sum, text, isCut }: EventCursor): void {
    if (place === 0 ? this.#bySum.has(sum) : this.#byPlace.has(place)) return
    const found: Found = { id: Buffer.from(id), place, text: Buffer.from(text), isCut, steps: [] }
    this.#all.push(found)
    if (place !== 0) this.#byPlace.set(place, found)
    if (!this.#bySum.has(sum)) this.#bySum.set(sum, found)
  }

  addStep(cursor: EventCursor): void {
    const found = (cursor.place === 0 ? undefined : this.#byPlace.get(cursor.place)) ?? this.#sameText(cursor)
    if (!found || found.steps.length >= MOST_STEPS) return
    const { text, ...step } = cursor.event()
    if (found.text.length === 0) {
      found.text = Buffer.from(text)
      found.isCut = step.isCut
    }
    found.steps.push({ ...step, text: NOTHING })
  }

  /**
   * Finds an event by its checksum, because a disk buffer may change or remove the event's place. If a component kept
   * several equal lines, finds the event for only one of these lines.
   */
  #sameText({ id, sum, component }: EventCursor): Found | undefined {
    const found = this.#bySum.get(sum)
    if (!found || found.steps.some(step => step.component === component)) return undefined
    const isSameReading = found.place !== 0 && id.compare(found.id, 0, READING_BYTES, 0, READING_BYTES) === 0
    return isSameReading ? undefined : found
  }

  found(most: number): FoundEvent[] {
    return this.#all.slice(0, most).map(({ id, place, text, isCut, steps }) => {
      const shown = text.toString()
      return {
        ...(place !== 0 && { id: id.toString('base64url') }),
        ...(!isCut && { event: parsed(shown) }),
        text: shown,
        steps: steps.sort(inOrder).map(stepOf),
      }
    })
  }
}

const NOTHING = Buffer.alloc(0)

/** Sorts by time. Steps in the same millisecond are in the order of FATES. */
const inOrder = (a: KeptEvent, b: KeptEvent) => a.at - b.at || FATES.indexOf(a.what) - FATES.indexOf(b.what)

export function stepOf({ at, component, what, reason, words, rule, bucket }: KeptEvent): EventStep {
  return {
    at: new Date(at).toISOString(),
    component,
    what,
    ...(reason !== '' && { reason, words }),
    ...(rule !== '' && { rule }),
    ...(bucket !== undefined && { bucket }),
  }
}

/** Parses the JSON of an event; undefined if it was cut. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
