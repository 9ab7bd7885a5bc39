import type { CounterSnapshot } from '../../../engine/run/measure/counter-snapshot.js'
import type { CallName, FromProcess } from './messages.js'

/** Checks messages from the process of an account. Plugins in the process and events of clients may influence them. */

type Check = (value: unknown) => boolean

const LONGEST_TEXT = 65_536
/** Limit of `msg` in a shortened log line. */
const LONGEST_MESSAGE = 1000

const text: Check = value => typeof value === 'string' && value.length <= LONGEST_TEXT
const number: Check = value => typeof value === 'number'
const flag: Check = value => typeof value === 'boolean'
const anything: Check = () => true
const matching =
  (pattern: RegExp): Check =>
  value =>
    text(value) && pattern.test(value as string)
const optional =
  (of: Check): Check =>
  value =>
    value === undefined || value === null || of(value)
const metricName = matching(/^[a-zA-Z_:][\w:]*$/)
const labelName = matching(/^[a-zA-Z_]\w*$/)

const list =
  (of: Check): Check =>
  value =>
    Array.isArray(value) && value.every(of)

const named = (name: Check, of: Check): Check =>
  list(value => Array.isArray(value) && value.length === 2 && name(value[0]) && of(value[1]))

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
  ...{ aside: named(text, amount), discards: named(text, amount), failures: named(text, number) },
  series: named(metricName, series),
  histograms: named(metricName, histogram),
})
const snapshot = shape({
  undelivered: named(text, number),
  disk: number,
  budget: shape({ requestBytes: number, waiting: number }),
})
const status: Check = value => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599
const headers = record(matching(/^[\w-]+$/), matching(/^[\t\x20-\x7e]*$/))
const refusal = shape({ status, code: text, message: text, headers, close: flag })
const failure: Check = value => shape({ refusal })(value) || shape({ error: text })(value)
const state = shape({
  ...{ version: text, revision: number, secrets: list(text), keepsEventsOnDisk: flag, hasEnded: flag },
})

const MESSAGES: Readonly<Record<FromProcess['type'], Check>> = {
  reply: shape({ id: number, value: anything }),
  failed: shape({ id: number, failure }),
  state: shape({ pipeline: text, state }),
  counted: shape({ counters: list(counters) }),
  log: shape({ line: text }),
}

const REPLIES: Readonly<Record<CallName, Check>> = {
  start: snapshot,
  update: snapshot,
  take: shape({ received: number }),
  stop: snapshot,
  abort: anything,
  forget: snapshot,
  inspect: snapshot,
}

function demand(holds: boolean, what: string): asserts holds {
  if (!holds) throw new TypeError(`it sent ${what}`)
}

export function checkedMessage(message: unknown): FromProcess {
  const type = (message as { readonly type?: unknown } | null | undefined)?.type
  const check = typeof type === 'string' && Object.hasOwn(MESSAGES, type) && MESSAGES[type as FromProcess['type']]
  demand(check !== false && check(message), `a message that is not one of ${Object.keys(MESSAGES).join(', ')}`)
  return message as FromProcess
}

/** Throws if the call is unknown, or if `value` is not a valid reply to the call. */
export function checkReply(call: CallName | undefined, value: unknown): void {
  demand(call !== undefined && REPLIES[call](value), `an invalid answer to ${call ?? 'an unknown call'}`)
}

/** Throws if a counter belongs to a pipeline outside of `pipelines`. Component ids begin with their pipeline id. */
export function checkPipelines(
  counters: readonly CounterSnapshot[],
  pipelines: Pick<ReadonlySet<string>, 'has'>,
): void {
  demand(
    counters.every(({ id }) => pipelines.has(pipelineOf(id))),
    'counters of another pipeline',
  )
}

export function pipelineOf(component: string): string {
  return component.split('/', 1)[0]!
}

export function shortError(error: string): string {
  return error.slice(0, LONGEST_TEXT)
}

/** Shortens a log line to the length that may be sent. A line that is too long keeps only its level and message. */
export function shortLine(line: string): string {
  if (line.length <= LONGEST_TEXT) return line
  const { level, msg } = JSON.parse(line) as { level: number; msg?: string }
  return JSON.stringify({ level, msg: msg?.slice(0, LONGEST_MESSAGE) })
}

export function checkedLine(line: string): { readonly level: number; readonly msg?: string } {
  const fields: unknown = JSON.parse(line)
  demand(shape({ level: number, msg: optional(text) })(fields), 'a line of the log without a level')
  return fields as { level: number; msg?: string }
}
