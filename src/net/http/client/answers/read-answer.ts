import type { Readable } from 'node:stream'
import { z } from 'zod'
import type { EventBatch } from '../../../../core/event/batch.js'
import { GrowingBytes } from '../../../../lib/formats/growing-bytes.js'
import { parseJsonWithin } from '../../../../lib/formats/json-text.js'
import type { Answer } from '../http-client.js'
import type { AnswerList } from '../request-format.js'
import type { EventResult } from './divided.js'

/** Reads the bodies of responses, which are untrusted. */

const TEXT_BYTES = 4096
/** Reads at most this much of an error response, which may quote a long name before it says what is wrong. */
const ERROR_BYTES = 64 * 1024
const TEXT_CHARACTERS = 300
/** Maximum bytes of a response that only counts events or describes the receiver, and its maximum values as JSON. */
const SHORT_BYTES = 128 * 1024
export const SHORT_VALUES = 10_000
const digits = z.string().regex(/^-?\d{1,20}$/)
/** An integer as a number or as text. */
export const integer = z.union([z.int(), digits.transform(Number)])
/**
 * A response that lists events may have LIST_BYTES, EVENT_BYTES for each event, and EVENT_QUOTES bytes for each byte of
 * the events, because it may quote them. After a longer response, the events are sent again in smaller requests.
 */
const LIST_BYTES = 1024 * 1024
const EVENT_BYTES = 2048
const EVENT_QUOTES = 4
const EVENT_VALUES = 100
const MOST_LIST_BYTES = 16 * 1024 * 1024
/** Maximum entries in a response's list, per event of the request. Reading millions of entries takes minutes. */
const MOST_ENTRIES = 16
/** Maximum bytes that are read and discarded so that the connection can be reused. */
const DRAIN_BYTES = 128 * 1024

/** Reads and discards a body that is not needed, so that the connection can be reused. */
export async function drain(body: Readable): Promise<void> {
  let bytes = 0
  await readBody(body, part => {
    bytes += part.length
    return bytes <= DRAIN_BYTES
  })
}

/**
 * Reads a body to its end. If `take` returns false, stops and closes the connection. Resolves with the error if the
 * body is cut off.
 */
function readBody(body: Readable, take: (part: Buffer) => boolean): Promise<unknown> {
  return new Promise(resolve => {
    const end = () => resolve(undefined)
    body.on('data', part => {
      if (take(part)) return
      end()
      body.destroy()
    })
    body.on('error', resolve).on('end', end).on('close', end)
  })
}

/**
 * Reads about `most` bytes of a body. The last part may exceed this limit. Copies the bytes, because a list of parts of
 * one byte each would take hundreds of times the memory.
 */
async function readUpTo(most: number, body: Readable): Promise<{ content: Buffer; broken: unknown }> {
  const content = new GrowingBytes()
  const broken = await readBody(body, part => {
    content.add(part, 0, part.length)
    return content.length <= most
  })
  return { content: content.bytes.subarray(0, content.length), broken }
}

/** The beginning of an error response's body, as one line. `words` extracts its text. */
export async function bodyText(body: Readable, words = (content: Buffer) => content): Promise<string> {
  const { content } = await readUpTo(ERROR_BYTES - 1, body)
  return oneLine(words(content).toString('utf8', 0, ERROR_BYTES))
}

/** Reads a short body. `content`: undefined if the body is too long. `broken`: the error that cut off the body. */
export async function shortBody(
  body: Readable,
): Promise<{ content: Buffer | undefined; text: string; broken: unknown }> {
  const { content, broken } = await readUpTo(SHORT_BYTES, body)
  const isTooLong = content.length > SHORT_BYTES
  return { content: isTooLong ? undefined : content, text: beginning(content), broken: isTooLong ? undefined : broken }
}

/** The body as JSON; undefined if it is too long or not JSON. */
export async function bodyJson(body: Readable): Promise<unknown> {
  const { content } = await readUpTo(SHORT_BYTES, body)
  return content.length > SHORT_BYTES ? undefined : parsed(content, SHORT_VALUES)
}

function parsed(json: Buffer, mostValues: number): unknown {
  try {
    return parseJsonWithin(json, mostValues)
  } catch {
    return undefined
  }
}

const beginning = (bytes: Buffer) => oneLine(bytes.toString('utf8', 0, TEXT_BYTES))

/** Converts untrusted text to one line. */
export const oneLine = (text: string): string => text.replace(/[\s\p{C}]+/gu, ' ').trim()

export function cutText(text: string): string {
  return text.length > TEXT_CHARACTERS ? `${text.slice(0, TEXT_CHARACTERS)}...` : text
}

export interface ReadAnswer {
  /** The beginning of the response as one line. */
  readonly text: string
  /**
   * Undefined if the list cannot be read. An entry whose event is unknown has an invalid index. Events that are accepted
   * by equal entries have no element, but count.
   */
  readonly entries: readonly EventResult[] | undefined
  /** The error that cut off the response. */
  readonly broken: unknown
  /** Whether it may list rejected events, but is too long, cut off, compressed or not valid. */
  readonly isUnreadable: boolean
}

/** The number of events in a request. */
export const eventsIn = (request: readonly EventBatch[]): number => request.reduce((sum, { length }) => sum + length, 0)

/** Reads the results for single events from a JSON response to `request`. */
export async function readAnswer(
  { body, headers }: Pick<Answer, 'body' | 'headers'>,
  list: AnswerList,
  request: readonly EventBatch[],
): Promise<ReadAnswer> {
  const events = eventsIn(request)
  const quotes = request.reduce((sum, { bytes }) => sum + bytes, 0) * EVENT_QUOTES
  const most = Math.min(MOST_LIST_BYTES, LIST_BYTES + events * EVENT_BYTES + quotes)
  const { content, broken } = await readUpTo(most, body)
  const isTooLong = content.length > most
  // Empty responses, which are the most frequent, are not parsed.
  const isComplete = content.length > 0 && !isTooLong && broken === undefined
  const entries = isComplete ? entriesOf(content, list, events) : []
  const isCompressed = content.length > 0 && !/^(identity)?$/i.test(headers['content-encoding'] ?? '')
  const text = beginning(content)
  // Simple receivers send a text without a content type.
  const mayList = Boolean(headers['content-type']) || text[0] === '{'
  const isIncomplete = broken !== undefined || !entries || isCompressed
  const isUnreadable = list.isWhole ? isTooLong : mayList && (isTooLong || isIncomplete)
  return { text, entries, broken: isTooLong ? undefined : broken, isUnreadable }
}

/** The entries of a complete response; undefined if it has a list that cannot be read. */
function entriesOf(json: Buffer, answerList: AnswerList, events: number): EventResult[] | undefined {
  const { name, isWhole, entry, isTaken } = answerList
  const same = withOneEntry(json, name)
  const answer = parsed(same?.json ?? json, SHORT_VALUES + events * EVENT_VALUES)
  if (answer === undefined) return json.includes(`"${name}"`) ? undefined : []
  const found = (answer as { readonly [name: string]: unknown } | null)?.[name]
  // A receiver may write a flag, a count, a text or one entry instead of a list.
  const list = isNothing(found) ? [] : [found].flat()
  const length = same?.count ?? list.length
  if (length > events * (isWhole ? 1 : MOST_ENTRIES)) return undefined
  if (same && isTaken?.(list[0])) return new Array<EventResult>(length)
  const entries: EventResult[] = []
  for (let position = 0; position < length; position++) {
    const read = entry(list[same ? 0 : position], position)
    if (!read) return undefined
    entries.push(read)
  }
  return entries
}

/**
 * If the list at the end of a response has only equal entries, returns their number, and the response with one of them.
 * So a response that accepts all events is not parsed as a whole.
 */
function withOneEntry(json: Buffer, name: string): { readonly json: Buffer; readonly count: number } | undefined {
  const mark = `"${name}":[`
  const start = json.indexOf(mark) + mark.length
  const end = json.lastIndexOf(']')
  const step = json.indexOf('},{', start) - start + 2
  const count = (end - start + 1) / step
  if (start < mark.length || step <= 2 || !Number.isInteger(count) || count < 2) return undefined
  if (json.compare(json, start, end - step, start + step, end) !== 0) return undefined
  return { json: Buffer.concat([json.subarray(0, start + step - 1), json.subarray(end)]), count }
}

const isNothing = (value: unknown) => !value || (typeof value === 'object' && Object.keys(value).length === 0)
