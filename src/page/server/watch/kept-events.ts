import { PLACE, READING, SUM } from '../../../core/event/event-id.js'
import type { Turn } from './budget.js'

/** The possible fates of an event, in the order in which they occur. */
export const FATES = ['read', 'passed', 'discarded', 'rejected', 'delivered'] as const
export type EventFate = (typeof FATES)[number]

/** The ends of the parts of an event id (core/event/event-id.ts), in bytes. */
export const READING_BYTES = READING
const PLACE_BYTES = READING + PLACE
export const ID_BYTES = READING + PLACE + SUM

/**
 * The input and the place of an id as one number; 0: the place is not known. Two places of different inputs have the
 * same number as rarely as two random numbers of 32 bits.
 */
export const placeNumber = (bytes: Buffer, id: number): number =>
  ((bytes.readUInt32LE(id) ^ bytes.readUInt32LE(id + PLACE_BYTES - 4)) >>> 0) +
  bytes.readUInt16LE(id + READING_BYTES) * 2 ** 32

export interface KeptEvent {
  /** Wall clock, in milliseconds. */
  readonly at: number
  readonly component: string
  readonly what: EventFate
  /** The event's id, as in core/event/event-id.ts. If the place is unknown, all bytes before the checksum are 0. */
  readonly id: Buffer
  readonly reason: string
  readonly words: string
  readonly rule: string
  /** Undefined: the event has no bucket; null: the default bucket. */
  readonly bucket: string | null | undefined
  /** The event's JSON, cut to LONGEST_TEXT; empty if another step of the event contains the text. */
  readonly text: Buffer
  readonly isCut: boolean
}

interface Segment {
  readonly bytes: Buffer
  end: number
  readonly firstAt: number
  /** How many candidates were seen before the first event of the segment. */
  readonly before: number
  count: number
}

interface Kept {
  segments: Segment[]
  /** Number of candidates seen so far. */
  seen: number
}

/** Offsets of the parts of a stored event: time, fate, flags, id, strings with their lengths, and the total length. */
const AT = 0
const WHAT = 8
const FLAGS = 9
const ID = 10
const STRINGS = ID + ID_BYTES
const CUT = 1
const HAS_BUCKET = 2
const IN_DEFAULT = 4
const TAIL = 4
const FIXED = STRINGS + 5 * 2 + TAIL

const SEGMENT_BYTES = 16 * 1024
/** Longest text of an event, in bytes. */
export const LONGEST_TEXT = 4096
/** Longest other string, in bytes. */
const LONGEST_WORDS = 1024

export interface KeptOf {
  /** The time when the oldest kept event was seen, in wall-clock milliseconds; undefined if no events are kept. */
  readonly from: number | undefined
  readonly kept: number
  readonly oneIn: number
  readonly bytes: number
}

/**
 * Keeps events in bounded memory. If the memory is full, drops the oldest events of the component with the most events.
 * Other components keep their events.
 */
export class KeptEvents {
  #most: number
  readonly #all = new Map<string, Kept>()
  #segments = 0

  constructor(bytes: number) {
    this.#most = segmentsIn(bytes)
  }

  limit(bytes: number): void {
    this.#most = segmentsIn(bytes)
    while (this.#segments > this.#most) this.#dropOne()
  }

  get used(): number {
    return this.#segments * SEGMENT_BYTES
  }

  #of(component: string): Kept {
    let kept = this.#all.get(component)
    if (!kept) this.#all.set(component, (kept = { segments: [], seen: 0 }))
    return kept
  }

  /** Counts candidates. Only some candidates are added later. */
  seen(component: string, events: number): void {
    this.#of(component).seen += events
  }

  /** Copies the bytes of the event. */
  add({ component, at, what, id, reason, words, rule, bucket, text, isCut }: KeptEvent): void {
    const named = bucket ?? ''
    const letters = reason.length + words.length + rule.length + named.length
    const segment = this.#roomFor(component, at, FIXED + Math.min(4 * LONGEST_WORDS, 3 * letters) + text.length)
    const { bytes, end: start } = segment
    bytes.writeDoubleLE(at, start + AT)
    bytes[start + WHAT] = FATES.indexOf(what)
    bytes[start + FLAGS] =
      (isCut ? CUT : 0) | (bucket === undefined ? 0 : HAS_BUCKET) | (bucket === null ? IN_DEFAULT : 0)
    id.copy(bytes, start + ID)
    let end = start + STRINGS
    for (const string of [reason, words, rule, named]) {
      const size = string === '' ? 0 : bytes.write(string, end + 2, LONGEST_WORDS)
      end = bytes.writeUInt16LE(size, end) + size
    }
    end = bytes.writeUInt16LE(text.length, end)
    end += text.copy(bytes, end)
    segment.end = bytes.writeUInt32LE(end + TAIL - start, end)
    // An empty text means that another step of the event has the text.
    if (text.length > 0) segment.count++
  }

  #roomFor(component: string, at: number, size: number): Segment {
    const kept = this.#of(component)
    const last = kept.segments.at(-1)
    if (last && last.end + size <= last.bytes.length) return last
    while (this.#segments >= this.#most) this.#dropOne()
    const bytes = Buffer.allocUnsafeSlow(SEGMENT_BYTES)
    const segment = { bytes, end: 0, firstAt: at, before: Math.max(0, kept.seen - 1), count: 0 }
    kept.segments.push(segment)
    this.#segments++
    return segment
  }

  #dropOne(): void {
    let largest: Segment[] = []
    for (const { segments } of this.#all.values()) {
      const more = segments.length - largest.length
      if (more > 0 || (more === 0 && segments[0] && segments[0].firstAt < largest[0]!.firstAt)) largest = segments
    }
    largest.shift()
    this.#segments--
  }

  /** Forgets components that are not in the set. */
  keepOnly(components: ReadonlySet<string>): void {
    for (const [component, { segments }] of this.#all) {
      if (components.has(component)) continue
      this.#segments -= segments.length
      this.#all.delete(component)
    }
  }

  /** Describes the kept events of a component, or of all components. */
  about(component?: string): KeptOf {
    let [kept, seen, bytes] = [0, 0, 0]
    let from: number | undefined
    for (const [id, { segments, seen: all }] of this.#all) {
      if ((component !== undefined && id !== component) || segments.length === 0) continue
      for (const { count } of segments) kept += count
      seen += all - segments[0]!.before
      bytes += segments.length * SEGMENT_BYTES
      from = Math.min(from ?? Number.POSITIVE_INFINITY, segments[0]!.firstAt)
    }
    return { from, kept, oneIn: kept === 0 ? 1 : Math.max(1, Math.round(seen / kept)), bytes }
  }

  /** Returns a cursor for each component, or for the given component. Each cursor starts after the newest event. */
  cursors(component?: string): EventCursor[] {
    const all = component === undefined ? [...this.#all.keys()] : [component]
    return all.map(id => new EventCursor(id, [...(this.#all.get(id)?.segments ?? [])]))
  }

  /** The events of one component, or of all components, newest first. */
  newest(component?: string): Generator<EventCursor, undefined> {
    return newestOf(this.cursors(component))
  }
}

/** For each event, from the newest to the oldest, yields the cursor that is at this event. */
export function* newestOf(all: readonly EventCursor[]): Generator<EventCursor, undefined> {
  const cursors = all.filter(cursor => cursor.back())
  while (cursors.length > 0) {
    let newest = 0
    for (let n = 1; n < cursors.length; n++) if (cursors[n]!.at > cursors[newest]!.at) newest = n
    const cursor = cursors[newest]!
    yield cursor
    if (!cursor.back()) cursors.splice(newest, 1)
  }
}

/** A position in the events of a component. Events that are dropped later stay readable through it. */
export class EventCursor {
  readonly component: string
  #segments: Segment[]
  #bytes: Buffer = Buffer.alloc(0)
  #start = 0
  at = 0

  constructor(component: string, segments: Segment[]) {
    this.component = component
    this.#segments = segments
  }

  /** Skips the segments that cannot hold a wanted event. */
  async keepOnly(mayHold: (bytes: Buffer) => boolean, turn: Turn): Promise<void> {
    const kept: Segment[] = []
    for (const segment of this.#segments) {
      const pause = turn()
      if (pause) await pause
      if (mayHold(segment.bytes.subarray(0, segment.end))) kept.push(segment)
    }
    this.#segments = kept
  }

  /** Moves to the previous event. Returns false if it does not exist. */
  back(): boolean {
    while (this.#start === 0) {
      const segment = this.#segments.pop()
      if (!segment) return false
      this.#bytes = segment.bytes
      this.#start = segment.end
    }
    this.#start -= this.#bytes.readUInt32LE(this.#start - TAIL)
    this.at = this.#bytes.readDoubleLE(this.#start + AT)
    return true
  }

  get what(): EventFate {
    return FATES[this.#bytes[this.#start + WHAT]!]!
  }

  get id(): Buffer {
    return this.#bytes.subarray(this.#start + ID, this.#start + STRINGS)
  }

  get place(): number {
    return placeNumber(this.#bytes, this.#start + ID)
  }

  get sum(): number {
    return this.#bytes.readUInt32LE(this.#start + ID + PLACE_BYTES)
  }

  get hasText(): boolean {
    const [start, end] = this.#string(4)
    return end > start
  }

  get text(): Buffer {
    const [start, end] = this.#string(4)
    return this.#bytes.subarray(start, end)
  }

  get isCut(): boolean {
    return (this.#bytes[this.#start + FLAGS]! & CUT) !== 0
  }

  #string(n: number): [start: number, end: number] {
    let at = this.#start + STRINGS
    for (let k = 0; k < n; k++) at += 2 + this.#bytes.readUInt16LE(at)
    return [at + 2, at + 2 + this.#bytes.readUInt16LE(at)]
  }

  #text(n: number): string {
    const [start, end] = this.#string(n)
    return this.#bytes.toString('utf8', start, end)
  }

  event(): KeptEvent {
    const flags = this.#bytes[this.#start + FLAGS]!
    const bucket = flags & IN_DEFAULT ? null : this.#text(3)
    return {
      at: this.at,
      component: this.component,
      what: this.what,
      id: this.id,
      reason: this.#text(0),
      words: this.#text(1),
      rule: this.#text(2),
      bucket: flags & HAS_BUCKET ? bucket : undefined,
      text: this.text,
      isCut: this.isCut,
    }
  }
}

const segmentsIn = (bytes: number) => Math.max(1, Math.floor(bytes / SEGMENT_BYTES))
