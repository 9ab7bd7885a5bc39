import { isDeepStrictEqual } from 'node:util'
import { ConditionError } from '../../../core/condition/cursor.js'
import { conditionOnLines } from '../../../daemon/admin/tap.js'
import type { Turn } from './budget.js'
import type { KeptEvidence } from './evidence.js'
import {
  type EventCursor,
  type EventFate,
  FATES,
  ID_BYTES,
  type KeptEvent,
  newestOf,
  PLACE_BYTES,
  READING_BYTES,
} from './kept-events.js'
import { QuestionError } from './question-error.js'

const MOST_FOUND = 100
const MOST_STEPS = 50
/** Number of events inspected between two checks of the clock. */
const BETWEEN = 64
const LF = Buffer.from('\n')
const NO_PLACE = Buffer.alloc(PLACE_BYTES)
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
  readonly looked_at: readonly LookedAt[]
  readonly found: readonly FoundEvent[]
  readonly more: boolean
}

type Test = (event: EventCursor) => boolean

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
  const [as, test] = testOf(query)
  const limit = Math.min(most, MOST_FOUND)
  const events = new Events()
  for await (const cursor of newest(evidence, turn)) {
    if (events.size > limit) break
    if (test(cursor)) events.add(cursor)
  }
  const distinct = { discarded: new Distinct(), rejected: new Distinct(), passed: new Distinct() }
  for await (const cursor of newest(evidence, turn)) {
    events.addStep(cursor)
    if (cursor.text.length > 0) distinct[kindOf(cursor.what)].add(cursor.id)
  }
  const found = events.found(limit)
  return { as, looked_at: lookedAt(evidence, kind => distinct[kind].size), found, more: events.size > limit }
}

function testOf(query: string): [FoundEvents['as'], Test] {
  const text = query.trim()
  if (text === '') throw new QuestionError("q is missing: a text, a condition such as .level equal 'error', or an id")
  const given = text.startsWith('{') ? parsed(text) : undefined
  const hasText = textTest(text)
  if (given !== undefined) return ['event', event => hasText(event) || hasFields(event, given as object)]
  if (ID.test(text)) {
    const id = Buffer.from(text, 'base64url')
    if (id.length === ID_BYTES) return ['id', event => isSamePlace(event.id, id) || hasText(event)]
  }
  try {
    const holds = conditionOnLines(text)
    return ['condition', event => !event.isCut && event.text.length > 0 && holds(Buffer.concat([event.text, LF]))]
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    if (/^if\s*\(/i.test(text)) throw new QuestionError(`the condition: ${error.message} (column ${error.column})`)
  }
  return ['text', hasText]
}

/** Whether an event has all fields of `given`. The event may have more fields. */
function hasFields({ text, isCut }: EventCursor, given: object): boolean {
  if (isCut || text.length === 0) return false
  const fields = parsed(text.toString()) as Record<string, unknown> | undefined
  return Object.entries(given).every(([name, value]) => isDeepStrictEqual(fields?.[name], value))
}

/** Returns a function that tests whether an event contains the text, literally or escaped as in a JSON string. */
function textTest(text: string): Test {
  const needles = new Set([text, JSON.stringify(text).slice(1, -1)])
  const all = [...needles].map(needle => Buffer.from(needle))
  return event => all.some(needle => event.text.includes(needle))
}

const isSamePlace = (a: Buffer, b: Buffer) =>
  a.compare(b, 0, PLACE_BYTES, 0, PLACE_BYTES) === 0 && a.compare(NO_PLACE, 0, PLACE_BYTES, 0, PLACE_BYTES) !== 0

/** All kinds of events together, newest first. */
async function* newest(evidence: KeptEvidence, turn: Turn): AsyncGenerator<EventCursor, undefined> {
  let events = 0
  for (const cursor of newestOf(KINDS.flatMap(kind => evidence[kind].cursors()))) {
    if (++events % BETWEEN === 0) await turn()
    yield cursor
  }
}

class Distinct {
  readonly #places = new Set<string>()
  /** Checksums of the events in `#places`. */
  readonly #sums = new Set<string>()
  /** Checksums of events whose places are not known. */
  readonly #placeless = new Set<string>()

  add(id: Buffer): void {
    const place = placeOf(id)
    if (place === undefined) this.#placeless.add(sumOf(id))
    else {
      this.#places.add(place)
      this.#sums.add(sumOf(id))
    }
  }

  get size(): number {
    return this.#places.size + [...this.#placeless].filter(sum => !this.#sums.has(sum)).length
  }
}

interface Found {
  readonly id: Buffer
  text: Buffer
  isCut: boolean
  readonly steps: KeptEvent[]
}

class Events {
  readonly #all: Found[] = []
  readonly #byPlace = new Map<string, Found>()
  /** The first event with each checksum. */
  readonly #bySum = new Map<string, Found>()

  get size(): number {
    return this.#all.length
  }

  /** Adds an event, unless it was added before. */
  add({ id, text, isCut }: EventCursor): void {
    const [place, sum] = [placeOf(id), sumOf(id)]
    if (place === undefined ? this.#bySum.has(sum) : this.#byPlace.has(place)) return
    const found: Found = { id: Buffer.from(id), text: Buffer.from(text), isCut, steps: [] }
    this.#all.push(found)
    if (place !== undefined) this.#byPlace.set(place, found)
    if (!this.#bySum.has(sum)) this.#bySum.set(sum, found)
  }

  addStep(cursor: EventCursor): void {
    const place = placeOf(cursor.id)
    const found = (place === undefined ? undefined : this.#byPlace.get(place)) ?? this.#sameText(cursor)
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
  #sameText({ id, component }: EventCursor): Found | undefined {
    const found = this.#bySum.get(sumOf(id))
    if (!found || found.steps.some(step => step.component === component)) return undefined
    const isSameReading =
      placeOf(found.id) !== undefined && id.compare(found.id, 0, READING_BYTES, 0, READING_BYTES) === 0
    return isSameReading ? undefined : found
  }

  found(most: number): FoundEvent[] {
    return this.#all.slice(0, most).map(({ id, text, isCut, steps }) => {
      const shown = text.toString()
      return {
        ...(placeOf(id) !== undefined && { id: id.toString('base64url') }),
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

function placeOf(id: Buffer): string | undefined {
  return id.compare(NO_PLACE, 0, PLACE_BYTES, 0, PLACE_BYTES) === 0 ? undefined : id.toString('latin1', 0, PLACE_BYTES)
}

const sumOf = (id: Buffer) => id.toString('latin1', PLACE_BYTES, ID_BYTES)

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
