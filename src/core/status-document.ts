import { z } from 'zod'

/**
 * The status document: `sluice status --json`, /status and the page have this form. `npm run docs` writes its
 * description and its JSON Schema from here. A member without a description shares that of the member before it.
 */

const text = z.string()
const number = z.number()
const listOf = <T extends z.ZodType>(item: T) => z.array(item).readonly()
const texts = listOf(text)
const counts = z.record(text, number)
const time = z.iso.datetime()

const problem = z.object({
  component: text.optional().describe('The affected component, if it is configured.'),
  what: text,
  detail: text.optional().describe('Facts, such as when the problem began and how often it occurred.'),
  todo: text,
  commands: texts.optional().describe('Commands that `todo` mentions, each ready to be typed.'),
})

const totals = z.object({
  received: number.describe('Events read by sources, each counted once.'),
  given_back: number.optional().describe('Events that reloads gave back to their sources, each time.'),
  emitted: counts.optional().describe('Events that processors created, except for readers of `.discarded`.'),
  consumed: counts.optional().describe('Events that processors merged into emitted events.'),
  /**
   * received + all of `emitted` = passed + all of `discarded` + all of `consumed` + undelivered. Uncertain are events with
   * several ways through processors, or discarded in several places, and events that a reload gave back.
   */
  passed: number.optional().describe('Events that passed every component on their way. Missing if uncertain.'),
  discarded: z.record(text, counts).describe('By component and reason.'),
  delivered: counts.describe('Events that each destination accepted, also those that read side outputs.'),
  undelivered: number.describe('Events read in this run that were neither delivered nor discarded, each counted once.'),
})

const books = totals.extend({
  in_flight: number.describe('The same number as `undelivered`.'),
  lost: z.record(text, counts).describe('The part of `discarded` for which no limit or condition asked.'),
  kept: z.record(text, counts).describe('The part of `discarded` that is in dead-letter queues, or was read there.'),
})

const rate = z.object({ received: number, received_bytes: number, sent: number, discarded: number })

const component = z.object({
  id: text,
  kind: text,
  type: text,
  inputs: texts.describe('The outputs that it reads, as in the configuration: ids, or `id.output`. Empty for sources.'),
  blocked_inputs: texts.optional().describe('Inputs whose events wait for it, or for a component behind it.'),
  state: text.describe('In a few words; empty if the component has none.'),
  received: number,
  received_bytes: number,
  sent: number.describe('To all outputs together.'),
  side_outputs: counts.optional().describe('Events sent to side outputs, by name.'),
  discarded: number,
  discarded_for: counts.optional().describe('Discarded events by reason.'),
  emitted: number.optional().describe('Events that it created, and events that it merged into these.'),
  consumed: number.optional(),
  in_flight: number,
  errors: counts.optional().describe('Number of errors by kind.'),
  last_error: text.optional(),
  utilization: number.optional().describe('The share of the last seconds in which it was busy.'),
  per_second: rate.optional().describe('Averaged over the last one to twenty seconds. Missing in the first second.'),
})

const stored = z.object({ events: number, used_bytes: number.describe('Size on disk.'), max_bytes: number })
/** `bytes`: of the events. Open objects still grow, closed ones wait to be sent. */
const spool = stored.extend({ bytes: number, open: number, closed: number })
const pastOutage = z.object({ since: time, until: time, failures: number, error: text.optional() })

const destination = z.object({
  id: text,
  state: text,
  reason: text.optional(),
  requests: z.object({ in_flight: number, allowed: number }).optional().describe('Only with `max_in_flight: auto`.'),
  buffer: stored.optional().describe('Only with a disk buffer.'),
  spool: spool.optional(),
  since: time.optional().describe('Only while attempts fail: when the failures began.'),
  failures: number.optional(),
  last_failure: time.optional(),
  next_attempt: time.optional(),
  last_outage: pastOutage.optional().describe('The last finished outage since this component started.'),
  oldest_event: time.optional(),
})

const source = z.object({ id: text, state: z.enum(['failing', 'holding']), reason: text })

const outage = z.object({
  isStuck: z.literal(true).optional().describe('The outage will not end by itself.'),
  reason: text,
  since: time,
  attempts: number,
  next_attempt: time.optional().describe('Missing during an attempt.'),
  meanwhile: text.describe('How events are handled during the outage.'),
})

const bucket = z.object({
  key: text.nullable().describe('Null: the default bucket.'),
  events: number,
  since: time.describe('When the first of the events was read.'),
})

const waiting = z.object({
  options: texts.describe('The options that make the events wait, as in the configuration.'),
  buckets: listOf(bucket).describe('Those with most events first. The list may be incomplete.'),
})

const wait = z.object({ id: text, for: texts, since: time })

const managed = z.object({
  pipeline: text,
  service: text,
  revision: number.optional().describe('Missing while nothing runs.'),
  published: number.optional().describe('The newest published revision that this daemon knows.'),
  refused: number.optional().describe('The newest revision, if it cannot run here, and the reason.'),
  refusal: text.optional(),
  last_contact: number.optional().describe('When the service last responded, in seconds since 1970.'),
  unreachable_seconds: number.optional().describe('How long the service has not responded, and why.'),
  unreachable: text.optional(),
  report_problem: text.optional().describe('Why the last report was not accepted.'),
})

const page = z.object({
  memory: number.describe('The limit for the kept data, in bytes.'),
  used: number,
  history_seconds: number.describe('Length of the history of each component.'),
  history_step_ms: number.describe('Interval between its values.'),
  token: z.boolean().describe('Only with a token does the page show texts of events.'),
})

const busiest = z.object({ id: text, share: number })
const sample = z.object({ labels: z.record(text, text), value: number })
const backlog = z.object({ component: text, name: text, bytes: number })

export const statusDocument = z.object({
  /** Increases when a member is removed or changes its meaning, but not when a member is added. */
  version: z.literal(1).describe('changes with removed members'),
  at: time.describe('times of document and start'),
  started_at: time.optional(),
  ready: z.boolean().describe('the last two only during a stop or reload'),
  stopping: z.literal(true).optional(),
  reloading_since: time.optional(),
  version_of_sluice: text.describe('program, bytes, machine, paths, hash'),
  node: text,
  memory: number.optional(),
  host: text,
  config: text.optional(),
  config_hash: text.optional(),
  data_dir: text.optional(),
  books: books.optional().describe('[totals](delivery.md#a-stop-or-a-reload), with `in_flight`'),
  problems: listOf(problem).describe('gravest first; notices cost no events, or are over'),
  notices: listOf(problem),
  components: listOf(component).describe('configuration, `state`, counts since the start'),
  destinations: listOf(destination).describe('`state`, `reason`, `requests`, `buffer` or `spool`, outage'),
  backlog: listOf(backlog).describe('files (`name`) with unread `bytes`'),
  sources: listOf(source).describe('only failing or waiting components, with the reason'),
  processors: listOf(outage.extend({ id: text })),
  waiting_for: listOf(wait).describe('`id` waits `for` others, `since`'),
  waiting: listOf(waiting.extend({ id: text, events: number })).describe('delayed events, reason, start'),
  bottleneck: busiest.optional().describe('busiest component, if its `share` is above half'),
  managed: managed.optional().describe('revisions, last answer of the service'),
  status_page: page.optional().describe('`memory`, `used`, history, `token`'),
  series: z.record(text, listOf(sample)).describe('all metrics except histograms'),
})

export interface OwnReason {
  /** The reason in words of Sluice alone: `reason` may quote others, and thereby events. */
  readonly ownReason?: string | undefined
}

export type Status = z.infer<typeof statusDocument>
export type ReportedProblem = z.infer<typeof problem>
export type Totals = z.infer<typeof totals>
export type Books = z.infer<typeof books>
export type ComponentStatus = z.infer<typeof component>
export type DestinationState = z.infer<typeof destination> & OwnReason
/** A source that is not reading now: it failed and will be restarted, or it waits for an operator. */
export type SourceFailure = z.infer<typeof source> & OwnReason
/** A server that a processor needs does not reply, or the processor is stuck. */
export type ProcessorOutage = z.infer<typeof outage> & OwnReason
export type WaitState = z.infer<typeof waiting>
/** The events that wait for a bucket. */
export type BucketWait = z.infer<typeof bucket>
/** A component that waits, and the components that cause it. */
export type Wait = z.infer<typeof wait>
export type ManagedReport = z.infer<typeof managed>
export type ManagedStatus = Omit<ManagedReport, 'pipeline' | 'service'>
export type PageState = z.infer<typeof page>
export type Backlog = z.infer<typeof backlog>
