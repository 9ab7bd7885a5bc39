import type { ServerResponse } from 'node:http'
import { JSON_OBJECTS } from '../codecs/json.js'
import { compileCondition, type EventTest } from '../condition/condition.js'
import { parseCondition } from '../condition/parse.js'
import { errorText } from '../core/errors.js'
import { Ack } from '../core/event/ack.js'
import { EventBatch } from '../core/event/batch.js'
import { FieldReader } from '../core/event/field-reader.js'
import { onReplyOver } from '../http/server/reply.js'
import { WantedNames } from '../lib/formats/json-scan.js'
import { jsonText } from '../lib/formats/json-text.js'
import { LineSplitter } from '../lib/lines/line-splitter.js'
import { every } from '../lib/time.js'
import type { Keyed } from './keys.js'

/** What can be looked into. */
export interface Tappable extends Keyed {
  /** Calls `tap` with every batch of an output until the result is called; undefined: there is no such output. */
  tap(output: string, tap: (batch: EventBatch) => void): (() => void) | undefined
  /** What there is. */
  outputs(): string[]
}

export interface TapQuery {
  readonly component: string
  /** Events before it ends; Infinity: until the reader goes. */
  readonly limit: number
  /** A condition; undefined: all. */
  readonly where: string | undefined
}

/** Events looked at in a second: watching must not slow down what is watched. */
const LOOKED_AT_PER_SECOND = 2000
/** What the reader has not taken yet. */
const UNREAD_BYTES = 1024 * 1024

/**
 * Writes the events of an output as NDJSON, as they come. Of more than can be looked at, and of what a slow reader does
 * not take, only the number is given, in lines that begin with `#`.
 */
export function streamTap(query: TapQuery, tappable: Tappable, response: ServerResponse): void {
  let holds: (fields: object) => boolean = () => true
  try {
    if (query.where !== undefined) holds = conditionOn(query.where)
  } catch (error) {
    response.writeHead(400).end(`the condition: ${errorText(error)}\n`)
    return
  }
  let left = query.limit
  let looks = LOOKED_AT_PER_SECOND
  let missed = 0
  const seen = (batch: EventBatch) => {
    for (let i = 0; i < batch.length && left > 0; i++) {
      if (looks === 0 || response.writableLength > UNREAD_BYTES) {
        missed += batch.length - i
        return
      }
      looks--
      const fields = batch.fields(i)
      if (!holds(fields)) continue
      response.write(`${jsonText(fields)}\n`)
      if (--left === 0) return end()
    }
  }
  let remove = tappable.tap(query.component, seen)
  if (!remove) {
    const ids = tappable.outputs()
    const known = ids.length > 0 ? `there are ${ids.join(', ')}` : 'no pipeline runs now, see: sluice status'
    response.writeHead(404).end(`there is no ${query.component}; ${known}\n`)
    return
  }
  const tellMissed = () => {
    if (missed === 0) return
    response.write(`# ${missed} more were not shown\n`)
    missed = 0
  }
  const stop = every(1000, () => {
    looks = LOOKED_AT_PER_SECOND
    // A reader that is slow now gets the number of all of them later.
    if (response.writableLength <= UNREAD_BYTES) tellMissed()
    // Another configuration may have taken the place of the one that was watched.
    remove?.()
    remove = tappable.tap(query.component, seen)
    if (!remove) end()
  })
  const end = () => {
    stop()
    remove?.()
    if (response.writable) tellMissed()
    response.end()
  }
  onReplyOver(response, end)
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.flushHeaders()
}

/** The condition on events by themselves: each is put into a batch of its own, so that the pipeline's are left alone. */
function conditionOn(text: string): (fields: object) => boolean {
  const wanted = new WantedNames()
  const test: EventTest = compileCondition(parseCondition(text), path => new FieldReader(path, wanted))
  const origin = { source: 'tap', host: '', codec: JSON_OBJECTS, wanted }
  const splitter = new LineSplitter(Number.MAX_SAFE_INTEGER)
  return fields => {
    const frame = splitter.push(Buffer.from(`${jsonText(fields)}\n`))
    return frame !== undefined && test(new EventBatch(frame, origin, 0, new Ack(() => {})), 0)
  }
}
