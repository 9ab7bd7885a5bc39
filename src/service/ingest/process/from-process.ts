import { deserialize } from 'node:v8'
import type { CallName, FromProcess } from './messages.js'

/**
 * Checks what the process of an account says: plugins run in it, and events of clients, so what comes from it is input.
 */

type Check = (value: unknown) => boolean

/** More than there is of anything. A list without content may be of any length. */
const MOST_ITEMS = 1_000_000

const text: Check = value => typeof value === 'string'
const number: Check = value => typeof value === 'number'
const flag: Check = value => typeof value === 'boolean'
const anything: Check = () => true
const matching =
  (pattern: RegExp): Check =>
  value =>
    typeof value === 'string' && pattern.test(value)
const optional =
  (of: Check): Check =>
  value =>
    value === undefined || of(value)
const metricName = matching(/^[a-zA-Z_:][\w:]*$/)
const labelName = matching(/^[a-zA-Z_]\w*$/)

const list =
  (of: Check): Check =>
  value => {
    if (!Array.isArray(value) || value.length > MOST_ITEMS) return false
    // Also what is missing.
    for (const one of value) if (!of(one)) return false
    return true
  }

const map =
  (name: Check, of: Check): Check =>
  value => {
    if (!(value instanceof Map)) return false
    for (const [key, one] of value) if (!name(key) || !of(one)) return false
    return true
  }

const record =
  (name: Check, of: Check): Check =>
  value =>
    typeof value === 'object' && value !== null && Object.entries(value).every(([key, one]) => name(key) && of(one))

function shape(checks: Readonly<Record<string, Check>>): Check {
  const all = Object.entries(checks)
  return value =>
    typeof value === 'object' &&
    value !== null &&
    all.every(([name, of]) => of((value as Readonly<Record<string, unknown>>)[name]))
}

const amount = shape({ events: number, bytes: number })
const exemplar = { requestId: text, at: number }
const labels = record(labelName, text)
const row = shape({ labels, value: number, exemplar: optional(shape(exemplar)), rest: optional(labels) })
const series = shape({ type: matching(/^(counter|gauge)$/), help: text, rows: list(row) })
const histogram = shape({
  help: text,
  buckets: list(number),
  sum: number,
  counts: list(number),
  exemplars: list(optional(shape({ ...exemplar, value: number }))),
})
const counters = shape({
  ...{ id: text, kind: matching(/^(source|processor|destination)$/), type: text },
  ...{ received: amount, passed: amount, consumed: amount, emitted: amount, inFlight: amount, toRead: amount },
  ...{ receivedAgain: number, returned: number, repeated: flag },
  ...{ aside: map(text, amount), discards: map(text, amount), failures: map(text, number) },
  series: map(metricName, series),
  histograms: map(metricName, histogram),
})
const look = shape({
  undelivered: map(text, number),
  disk: list(value => Array.isArray(value) && value.length === 2 && text(value[0]) && number(value[1])),
  share: shape({ keys: number, forgottenKeys: number, requestBytes: number, waiting: number }),
  counters: list(counters),
})
const status: Check = value => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599
const headers = record(matching(/^[\w-]+$/), matching(/^[\t\x20-\x7e]*$/))
const refusal = shape({ status, code: text, message: text, headers, close: flag })
const failure: Check = value => shape({ refusal })(value) || shape({ error: text })(value)
const state = shape({
  ...{ version: text, revision: number, secrets: list(text), hasDiskBuffers: flag, hasEnded: flag },
})

const MESSAGES: Readonly<Record<FromProcess['type'], Check>> = {
  reply: shape({ id: number, value: anything }),
  failed: shape({ id: number, failure }),
  state: shape({ pipeline: text, state }),
  log: shape({ line: text }),
}

/** What each call may get. */
const REPLIES: Readonly<Record<CallName, Check>> = {
  start: look,
  update: look,
  take: shape({ status, headers: optional(headers), body: anything }),
  stop: look,
  abort: anything,
  forget: anything,
  look,
}

function demand(holds: boolean, what: string): asserts holds {
  if (!holds) throw new TypeError(`it sent ${what}`)
}

/** The head of a frame. Throws if it is not a message. */
export function readMessage(head: Buffer): FromProcess {
  return checkedMessage(deserialize(head))
}

export function checkedMessage(message: unknown): FromProcess {
  const type = (message as { readonly type?: unknown } | null | undefined)?.type
  const check = typeof type === 'string' && Object.hasOwn(MESSAGES, type) && MESSAGES[type as FromProcess['type']]
  demand(check !== false && check(message), `a message that is none of ${Object.keys(MESSAGES).join(', ')}`)
  return message as FromProcess
}

/** Throws if it is no answer to such a call. */
export function checkReply(call: CallName, value: unknown): void {
  demand(REPLIES[call](value), `no answer to ${call}`)
}

/** A line of the log. Throws if it is none. */
export function checkedLine(line: string): { readonly level: number; readonly msg?: string } {
  const fields: unknown = JSON.parse(line)
  demand(shape({ level: number, msg: optional(text) })(fields), 'a line of the log without a level')
  return fields as { level: number; msg?: string }
}
