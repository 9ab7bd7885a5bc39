import type { ServerResponse } from 'node:http'
import { JSON_OBJECTS } from '../../core/codecs/json.js'
import { compileCondition, type EventTest } from '../../core/condition/condition.js'
import { parseCondition } from '../../core/condition/parse.js'
import { errorText } from '../../core/errors.js'
import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { FieldReader } from '../../core/event/field-reader.js'
import type { Links } from '../../engine/run/links.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { exactJson } from '../../lib/formats/normal-json.js'
import { splitLines } from '../../lib/lines/line-splitter.js'
import { everyOf, systemClock } from '../../lib/time.js'
import { onReplyOver } from '../../net/http/server/respond.js'
import type { Keyed } from './keys.js'

export type Taps = Keyed & Pick<Links, 'tap' | 'outputs'>

/** A pipeline whose events can be tapped. A reload replaces `taps`. */
export interface Tappable {
  readonly taps: Taps
}

export interface TapQuery {
  readonly component: string
  /** Number of events after which the tap ends. If Infinity, the tap ends when the client disconnects. */
  readonly limit: number
  /** A condition; undefined selects all events. */
  readonly where: string | undefined
  /** Maximum number of events, or of KiB, inspected per second; default: 2,000. */
  readonly rate?: number | undefined
  /** Maximum number of events shown per second; default: all that match. */
  readonly most?: number | undefined
  /** Milliseconds after which the tap ends. */
  readonly forMs?: number | undefined
}

/** A positive number in a query; undefined if it is missing or not positive. */
function numberIn(query: URLSearchParams, name: string): number | undefined {
  const value = Number(query.get(name) ?? Number.NaN)
  return value > 0 && Number.isFinite(value) ? value : undefined
}

export function tapQueryOf(query: URLSearchParams): TapQuery {
  return {
    component: query.get('component') ?? '',
    limit: numberIn(query, 'limit') ?? Number.POSITIVE_INFINITY,
    where: query.get('where') ?? undefined,
    rate: numberIn(query, 'rate'),
    most: numberIn(query, 'most'),
    forMs: numberIn(query, 'for'),
  }
}

/** Maximum number of events inspected per second by default. Taps must not slow down the pipeline. */
const LOOKED_AT_PER_SECOND = 2000
/** A larger event counts as several: as one for each of these bytes. */
const LOOKED_AT_BYTES = 1024
/** The maximum rate that a client can request. */
const MOST_PER_SECOND = 20_000
/** Maximum bytes buffered for a slow client. */
const UNREAD_BYTES = 1024 * 1024

/**
 * Streams the events of an output as NDJSON. Skips events over the rate limit, and events that a slow client does not
 * read in time. Lines that begin with `#` give the number of skipped events.
 */
export function streamTap(query: TapQuery, tappable: Tappable, response: ServerResponse, clock = systemClock): void {
  let holds: (json: string) => boolean = () => true
  try {
    if (query.where !== undefined) holds = conditionOn(query.where)
  } catch (error) {
    response.writeHead(400).end(`the condition: ${errorText(error)}\n`)
    return
  }
  let left = query.limit
  const rate = Math.min(query.rate ?? LOOKED_AT_PER_SECOND, MOST_PER_SECOND)
  let looks = rate
  const most = query.most ?? Number.POSITIVE_INFINITY
  let room = most
  let missed = 0
  /** Number of matching events that were not shown because of `most`. */
  let beyond = 0
  const seen = (batch: EventBatch) => {
    for (let i = 0; i < batch.length && left > 0; i++) {
      if (looks <= 0 || response.writableLength > UNREAD_BYTES) {
        missed += batch.length - i
        return
      }
      // Formatting and testing a large event takes as long as several small events.
      looks -= Math.max(1, batch.size(i) / LOOKED_AT_BYTES)
      const line = exactJson(batch.fields(i, true))
      if (!holds(line)) continue
      if (room <= 0) {
        beyond++
        continue
      }
      room--
      response.write(`${line}\n`)
      if (--left <= 0) return end()
    }
  }
  let remove = tappable.taps.tap(query.component, seen)
  if (!remove) {
    const ids = tappable.taps.outputs()
    const known = ids.length > 0 ? `there are ${ids.join(', ')}` : 'no pipeline runs now, see: sluice status'
    response.writeHead(404).end(`there is no ${query.component}; ${known}\n`)
    return
  }
  const writeMissed = () => {
    // The skipped events were not tested with the condition.
    const what = query.where === undefined ? 'were not shown' : 'were not looked at'
    if (missed > 0) response.write(`# ${missed} more ${what}\n`)
    if (beyond > 0) response.write(`# ${beyond} more that match were not shown\n`)
    missed = beyond = 0
  }
  const stop = everyOf(clock, 1000, () => {
    looks = rate
    room = most
    // If a client is slow now, it gets the number of skipped events later.
    if (response.writableLength <= UNREAD_BYTES) writeMissed()
    // Attaches the tap again, since a reload may have replaced the pipeline.
    remove?.()
    remove = tappable.taps.tap(query.component, seen)
    if (!remove) end()
  })
  const stopAtEnd = query.forMs === undefined ? () => {} : clock.after(query.forMs, () => end())
  const end = () => {
    stop()
    stopAtEnd()
    remove?.()
    if (response.writable) writeMissed()
    response.end()
  }
  onReplyOver(response, end)
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.flushHeaders()
}

/** A condition on single events. Each event is copied into its own batch, so the pipeline's batches stay unchanged. */
function conditionOn(text: string): (json: string) => boolean {
  const holds = conditionOnLines(text)
  return json => holds(Buffer.from(`${json}\n`))
}

/** A condition on lines. Each line is an event's JSON with a line end. Throws ConditionError. */
export function conditionOnLines(text: string): (line: Buffer) => boolean {
  const wanted = new WantedNames()
  const test: EventTest = compileCondition(parseCondition(text), path => new FieldReader(path, wanted))
  const origin = { source: 'tap', host: '', codec: JSON_OBJECTS, wanted }
  return line => {
    const frame = splitLines(line)
    try {
      return frame !== undefined && test(new EventBatch(frame, origin, 0, new Ack(() => {})), 0)
    } finally {
      frame?.release?.()
    }
  }
}
