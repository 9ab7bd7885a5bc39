import type { BigIntStats } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { FileSystems } from '../lib/files/disk/file-systems.js'
import type { TimerClock } from '../lib/time.js'
import type { Codec } from './codec.js'
import type { FileProblem } from './errors.js'
import type { Ack, OnSettled } from './event/ack.js'
import type { EventBatch } from './event/batch.js'
import type { EventEditor } from './event/event-editor.js'
import type { EventFields, TimeSearch, UsedField } from './event/event-fields.js'
import type { FieldPath } from './event/field-path.js'
import type { FieldReader } from './event/field-reader.js'
import type { Origin } from './event/origin.js'
import type { Example, Explain, FindingsOf, MadeLines } from './explain.js'
import type { DeliveryDefaults } from './options/delivery-options.js'
import type { Reach } from './options/reach.js'
import type { Decides, Plan } from './processor.js'

/**
 * Version of the contract between the program and plugins. It changes when plugins for the previous version may stop
 * working.
 */
export const CONTRACT = 1

/** Only the engine calls these methods. It may call `stop` twice, or without `start`. */
export interface Lifecycle {
  /** Connects or validates. After a DeliveryError the engine retries; any other error fails the start. */
  start?(signal: AbortSignal): Promise<void>
  /** Releases all resources. Gives up pending work when `deadline` aborts. */
  stop?(deadline: AbortSignal): Promise<void>
  /**
   * On reload, returns state for a successor with the same options. The successor finds it in `inherited`. The engine
   * calls this method before `stop`, when no more events arrive. The component must not keep a reference to the state.
   * Only for processors and destinations.
   */
  handOver?(): HandoverState | undefined
}

export interface HandoverState {
  readonly value: unknown
  /** Releases the state if no successor takes it. */
  readonly release?: () => Promise<void>
}

/** Where a source sends its batches. */
export interface Output {
  /** Creates the ack for a batch. When settled, it frees the batch's share of the budget and calls `onSettled`. */
  ack(onSettled: OnSettled): Ack
  /** Resolves when downstream has room again and the budget of unacknowledged bytes allows more. */
  send(batch: EventBatch): Promise<void>
}

export interface Source extends Lifecycle {
  /**
   * The source cannot read its input twice. On reload, the engine resends undelivered events itself. A source with
   * neither `once` nor `redelivers` resumes from a saved position.
   */
  readonly once?: true
  /**
   * The source acknowledges each delivered event to its server, and has no position. The server sends the other events
   * again, in any order. The source reads undelivered events again itself, or ends its run with a GivenBackError.
   */
  readonly redelivers?: true
  /** The source answers its senders, and they resend the events that could not be delivered. */
  readonly answers?: true
  /**
   * Reads until the input ends or the signal aborts. After an error, the engine logs and counts it, and runs the source
   * again from its checkpoint after a backoff.
   */
  run(out: Output, signal: AbortSignal): Promise<void>
}

/** Decides about events; engine/flow/stage.ts carries out the decisions. */
export interface Processor extends Decides, Lifecycle {
  /** Starts counting decisions by key. Only for processors that decide by key. */
  watchKeys?(): KeyWatch
  /**
   * Calls `see` with each batch and its decisions until the returned function is called. Only for processors that
   * decide by key. A function that is registered several times is called once per batch.
   */
  watchDecisions?(see: SeeDecisions): () => void
  /** Number of events that it has decided about. Only for processors that decide by key. */
  readonly decided?: number
  /**
   * Returns the bucket of event `i`. The processor has already decided about this event. Only for processors that
   * decide by key.
   */
  bucketOf?(batch: EventBatch, i: number): EventBucket
  /**
   * Returns the state of bucket `key`; null: the default bucket. Only for processors that decide by key. `rule`: the
   * rule of the bucket, as in BucketState; null: no rule; undefined: the one that applied to the bucket's events, if
   * known.
   */
  bucket?(key: string | null, rule?: string | null): BucketState
  /** Returns why these events wait, for which the processor decided LATER. Only for processors whose plan `waits`. */
  waitsFor?(events: Iterable<EventBatch>): WaitState
  /** Whether it delays events on purpose, for example because its options let it wait for a server. */
  readonly isWaiting?: boolean
  /** Set while a server that the processor needs does not reply. */
  readonly outage?: ProcessorOutage | undefined
}

/**
 * Receives a batch and the number of the decision for each event, before the events leave the processor. It must not
 * keep the batch or the decisions. `key`: the fields of the key; empty: all events share one bucket. `buckets`: the
 * bucket of each event, if known.
 */
export type SeeDecisions = (
  batch: EventBatch,
  decisions: Uint8Array,
  key: readonly FieldReader[],
  buckets?: KnownBuckets,
) => void

/**
 * The bucket number of each event; negative: unknown. When `owner` changes, the same number may mean another bucket.
 */
export interface KnownBuckets {
  readonly ids: Int32Array
  readonly owner: number
}

export interface EventBucket {
  /** The name of the bucket; null: the default one. */
  readonly bucket: string | null
  /** The rule of the bucket, as written in the configuration; missing if there is no rule. */
  readonly rule?: string
}

/** A server that a processor needs does not reply. `isStuck`: this will not change by itself. Times are ISO 8601. */
export interface ProcessorOutage {
  readonly isStuck?: true
  readonly reason: string
  readonly since: string
  readonly attempts: number
  /** Missing during an attempt. */
  readonly next_attempt?: string
  /** How events are handled during the outage. */
  readonly meanwhile: string
}

export interface BucketState {
  /** The rule of the bucket, as written in the configuration. */
  readonly rule?: string
  /** The limit closest to being reached: the amount per window, in `unit`. Missing if it is shared or unknown. */
  readonly limit?: number
  readonly unit?: 'events' | 'bytes' | 'cost'
  readonly window_ms?: number
  readonly window_mode?: string
  /** The amount that has passed in the window. */
  readonly used?: number
  /** Start of the open window, ISO 8601; missing if no window is open. */
  readonly since?: string
  readonly until?: string
  /** Set if the server that counts does not reply; `used` is then the server's last answer. */
  readonly outage?: ProcessorOutage
  readonly discarded_last_hour: number
  /** When this count began, ISO 8601: an hour ago, or when the throttle started with its options. */
  readonly discarded_since: string
  /** False: `used` is an estimate. */
  readonly is_exact: boolean
}

export interface WaitState {
  /** The processor options that make the events wait, as written in the configuration. */
  readonly options: readonly string[]
  /** The buckets for which the events wait, most events first; possibly incomplete. */
  readonly buckets: readonly BucketWait[]
}

/** Number of waiting events of a bucket (null: the default one), and when the first of them was read, ISO 8601. */
export interface BucketWait {
  readonly key: string | null
  readonly events: number
  readonly since: string
}

export interface LiveBucket extends BucketState {
  readonly key: string | null
  /**
   * The bucket's waiting events, and why they wait. Missing if no events wait, or if many other buckets have more
   * waiting events.
   */
  readonly waiting?: BucketWait & Pick<WaitState, 'options'>
  /** The components that read discarded events; null: the throttle is in shadow mode and discards no events. */
  readonly discarded_to: readonly string[] | null
}

export interface KeyCount {
  /** Null for events without a key. A long key is shortened and ends with a digest of the whole key. */
  readonly key: string | null
  readonly passed: number
  readonly discarded: number
  /** Missing if the key is shortened. */
  readonly bucket?: BucketState | undefined
}

export interface KeyCounts {
  /** False: the counts are scaled up from a sample. */
  readonly exact: boolean
  /** The keys, those with most events first. */
  readonly keys: readonly KeyCount[]
  /** As in LiveBucket. */
  readonly discarded_to?: readonly string[] | null
}

export interface KeyWatch {
  /** Stops counting and returns the `most` busiest keys. */
  end(most: number): KeyCounts
}

/** Makes single attempts. The engine (engine/flow/delivery) handles retries, batching, pauses and rejected events. */
export interface Destination extends Lifecycle {
  /**
   * Resolves when the receiver has accepted all events. Otherwise throws a DeliveryError; any other error counts as
   * `retry`. A retry gets the same array unless the request was divided, so a WeakMap can cache derived data. The bytes
   * of a batch are valid until its acknowledgement is settled. After the signal aborts, the acknowledgement may be
   * settled before the promise: copy the bytes you need before the first await, and do not use a batch after that
   * await.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most destinations return no receipt
  write(request: readonly EventBatch[], signal: AbortSignal, partition?: string): Promise<Receipt | void>
  /**
   * Returns the name of the event's partition, such as a tenant. All events of a request share a partition, and `write`
   * receives its name. A partition has at most one request in flight. Throws a DeliveryError if an event fits no
   * partition; the engine rejects the event.
   */
  partitionOf?(batch: EventBatch, i: number): string
  /** Maximum number of partitions that wait for more events at the same time. Default 100. */
  readonly mostPartitions?: number | undefined
  /**
   * Returns the size of a request as sent, in bytes before compression. The request is written next if its size is at
   * most `maxBytes`, so the encoding may be cached. Without this method, the engine counts the size as read.
   */
  sizeOf?(request: readonly EventBatch[], maxBytes: number): number
  /** Whether it prefers requests of whole batches. If not, batches are divided to fill requests. */
  readonly keepsBatches?: boolean
  /** While paused: whether a change, such as a replaced key, justifies an immediate attempt. */
  changed?(): Promise<boolean>
  /**
   * Set if `write` only stores events on disk. They are delivered later, as objects. Usable after `start`.
   */
  readonly spool?: Spool
}

/** Events that a destination has stored, and the objects that they become. */
export interface Spool {
  /** The stored events. Metrics count them as sent when their object is delivered. */
  readonly held: { readonly events: number; readonly bytes: number }
  /** Number of objects. Open objects still grow. Closed objects are being sent or wait to be sent. */
  readonly objects: { readonly open: number; readonly closed: number }
  /** When its oldest object was opened, wall clock in milliseconds; undefined: no object exists. */
  readonly oldestAt: number | undefined
  /** Takes an object that is due; undefined: none is due. `all`: no more events follow, so every object is due. */
  next(all: boolean): SpooledObject | undefined
  /** Called when an object may be due; set by the engine. */
  changed: () => void
}

export interface SpooledObject {
  /** Makes one attempt at the object's next request. Resolves with true once the receiver has the whole object. */
  send(signal: AbortSignal): Promise<boolean>
  delivered(): Promise<void>
  /** Called if the object will not be sent in this run. */
  release(): void
}

/** The request that last changed a counter, as an OpenMetrics exemplar. */
export interface Exemplar {
  readonly requestId: string
  /** Wall clock in milliseconds. */
  readonly at: number
}

export interface Receipt {
  readonly requestId?: string | undefined
  /** With a spool: events of the request that were already in an object. They count as sent again. */
  readonly repeated?: { readonly events: number; readonly bytes: number } | undefined
}

/** The counters of one component, as plain numbers. engine/run/measure/metrics.ts turns them into Prometheus series. */
export interface ComponentMetrics {
  /** Counts a batch taken from the component's queue. The stages call this; the balance check uses the counter. */
  took(events: number, bytes: number): void
  /** Counts events passed to the next components or accepted by the receiver. `output` names a side output. */
  sent(events: number, bytes: number, output?: string): void
  /** Counts events merged into events that the component will emit. */
  consumed(events: number, bytes: number): void
  /** Counts events that the component created. */
  emitted(events: number, bytes: number): void
  /** Counts intentionally discarded events; `reason` is a label. */
  discarded(reason: string, events: number, bytes: number): void
  /** Counts an error that lost no event; `kind` is a label. */
  failed(kind: string): void
  /** Returns a counter of the component; always the same object for the same name and labels. */
  counter(name: string, help: string, labels?: Record<string, string>): { value: number; exemplar?: Exemplar }
  /** Registers a gauge, read at each scrape. */
  gauge(name: string, help: string, read: () => number, labels?: Record<string, string>): void
  /** Registers a gauge whose series come and go, read at each scrape. */
  gauges(name: string, help: string, read: () => Iterable<{ labels: Record<string, string>; value: number }>): void
  /**
   * Registers counters that come and go, read at each scrape. They replace the predecessor's counters. When a counter
   * is removed, the counter with the labels `rest` must include its value.
   */
  counters(
    name: string,
    help: string,
    rest: Record<string, string>,
    read: () => Iterable<{ labels: Record<string, string>; value: number }>,
  ): void
  histogram(name: string, help: string, buckets: readonly number[]): Observer
  /**
   * Reserves `count` series with a key as label, if the number of such series is limited. Returns false if too few are
   * left. When the component ends, all its series are released.
   */
  takeSeries?(count: number): boolean
  freeSeries?(count: number): void
}

export interface Observer {
  observe(value: number, exemplar?: Exemplar): void
}

/** The abort reason of a source's signal at a reload: the daemon keeps running. */
export const REPLACED = Symbol('replaced')

/** The saved positions of a source: one JSON document, written atomically and soon after each change. */
export interface Checkpoints {
  /** Returns the last document; undefined: missing; null: damaged. Throws StateUnreadable if it cannot be read now. */
  read(): unknown
  /** Sets the function that returns the state to save, called at each write. */
  provide(snapshot: () => unknown): void
  /** Requests a write, since the state has changed. */
  changed(): void
  /** Resolves when the current state is on disk. */
  flush(): Promise<void>
  readonly file?: string
  /** When the state was last written (or found unchanged), wall clock in milliseconds; 0: never. */
  readonly savedAt: number
}

export interface ComponentContext {
  readonly id: string
  readonly log: Logger
  readonly clock: TimerClock
  readonly metrics: ComponentMetrics
  /** Creates a reader for a field of the events that reach this component. Call it in `create` only. */
  field(path: FieldPath): FieldReader
  /** The limits of a component in a managed configuration; undefined: unlimited. */
  readonly reach?: Reach | undefined
  /** State from `handOver` of the predecessor, or undefined. */
  readonly inherited?: unknown
}

/** The folder of a component in data_dir. The component creates it when it first stores something. */
export interface StateFolder {
  readonly path: string
  hasRoom(bytes: number): boolean
  /** Reports the size of the folder in bytes; `isLast`: the component writes no more. */
  count(bytes: () => number, isLast?: boolean): void
}

export interface ProcessorContext extends ComponentContext {
  /** For state that must survive a restart; undefined if there is no place for it, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Creates an editor of the events that reach this component. Call it in `create` only. */
  editor(): EventEditor
}

export interface SourceContext extends ComponentContext {
  readonly checkpoints: Checkpoints
  /** Returns the origin of lines that come from `path`; without `path`, of lines that come from the source. */
  origin(codec: Codec, path?: string): Origin
  /**
   * Whether a destination wrote events of this source to a file. `key`: `device:inode` of the file. `birth`: when the
   * file was created, in nanoseconds.
   */
  isOwnOutput?(key: string, birth: bigint): boolean
  /** Standard input, or its replacement. */
  readonly stdin: Readable
  /** Knows which file systems respond. Default: the object that the whole process shares. */
  readonly fileSystems?: FileSystems | undefined
}

export interface DestinationContext extends ComponentContext {
  /** For the spool; undefined if there is no place for it, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Standard output, or its replacement. */
  readonly stdout: NodeJS.WritableStream
  /** Knows which file systems respond. Default: the object that the whole process shares. */
  readonly fileSystems?: FileSystems | undefined
  /** Whether the destination may block the event loop. True if it is the only destination and has no disk buffer. */
  readonly isAlone?: boolean
  /** Registers a file that is written until the returned function is called. Sources skip their own events in it. */
  writes?(file: Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>): () => void
}

export interface Kinds {
  source: { component: Source; context: SourceContext }
  processor: { component: Processor; context: ProcessorContext }
  destination: { component: Destination; context: DestinationContext }
}
export type Kind = keyof Kinds

export interface FilesThere {
  readonly files: number
  readonly bytes: number
  readonly mayBeMore: boolean
}

export interface Upstream {
  readonly id: string
  readonly definition: AnyDefinition
  readonly options: unknown
}

export interface OptionProblem {
  readonly path: readonly (string | number)[]
  readonly message: string
  /** The problem is a warning: the missing item may exist where the configuration will be used. */
  readonly isWarning?: true
}

/**
 * The declaration of a component type: schema, texts, examples and constructor. Its functions import large code only
 * when called, so a start loads only the code that runs.
 */
export interface Definition<K extends Kind, S extends z.ZodObject> {
  readonly kind: K
  readonly type: string
  /** Plugin and version that define it; undefined for built-in components. */
  readonly plugin?: string
  /** One sentence. */
  readonly summary: string
  readonly options: S
  /** The options that most configurations need. The reference shows them first. Undefined: all. */
  readonly usualOptions?: readonly string[]

  // Running the component, and facts that the daemon needs first.
  create(options: z.output<S>, context: Kinds[K]['context']): Kinds[K]['component'] | Promise<Kinds[K]['component']>
  /** Processors only: what it can do with events, given its options. */
  plan?(options: z.output<S>): Plan
  /** Destinations only: its defaults of the delivery options; without them, REMOTE applies. */
  readonly delivery?: DeliveryDefaults
  /** Sources only: names an input that exists once per process. A second source of this type is an error. */
  readonly single?: string
  /** Destinations only: the option that names the output file, if any. */
  readonly writes?: string
  /** Destinations only: whether it has a `spool` below `data_dir`. */
  readonly spools?: true
  /** Processors and destinations: whether it uses the ids or positions of events (core/event/event-id.ts). */
  usesIds?(options: z.output<S>): boolean
  /** Sources only: returns a test for the paths that the source reads. Follows links only if `onThisMachine`. */
  reads?(options: z.output<S>, onThisMachine: boolean): (path: string) => boolean
  /** The file used if the options name none, and the option that can name another. */
  readonly reachesUnnamed?: { readonly option: string; readonly path: string }
  /**
   * Processors only: the option that names a user's module, relative to the configuration file. `reload: watch` watches
   * the module.
   */
  readonly module?: string
  /**
   * Sources only: returns its inputs that another source has already read. `saved`: the checkpoint of the other source.
   * This source would read these inputs again.
   */
  overlaps?(options: z.output<S>, saved: unknown): string[]
  /** Sources only: whether it reads input that is older than its start (EventBatch.isBacklog). */
  catchesUp?(options: z.output<S>): boolean
  /** Sources only: the files that a first start would read now; undefined: none, or unknown. */
  filesThere?(options: z.output<S>): FilesThere | undefined

  // Fields of events.
  /** Returns the fields that events of a source can have, or that a processor adds to them; undefined: any. */
  fields?(options: z.output<S>): EventFields | undefined
  /** Processors only: how it finds the time of events; undefined: it does not. */
  findsTime?(options: z.output<S>): TimeSearch | undefined
  /** Returns the options that name event fields. */
  usesFields?(options: z.output<S>): readonly UsedField[]
  /** Processors and destinations: whether they use only the lines as read, and the fields of `usesFields`. */
  copiesLines?(options: z.output<S>): boolean

  // Checks of a configuration that the schema does not make.
  /**
   * Warnings about options that are valid but rarely intended. `upstream`: the components whose events reach this one.
   * May stat files but not open them.
   */
  warnings?(options: z.output<S>, upstream: readonly Upstream[]): readonly OptionProblem[]
  /** Problems found only by reading the files and modules that the options name. For `sluice validate`. */
  checkFiles?(options: z.output<S>): Promise<readonly (OptionProblem | FileProblem)[]>

  /**
   * For `sluice validate --online`: connects as when running, and checks keys and permissions as far as possible
   * without sending an event. Resolves with a description of the checks; undefined: nothing to check. Throws an error
   * that describes the problem.
   */
  check?(options: z.output<S>, context: ComponentContext, signal: AbortSignal): Promise<string | undefined>

  // For the reference.
  /** Text after the summary, about rules across options that the schema checks but cannot express. */
  readonly notes?: string
  /** Processors only: the meaning of every discard reason. */
  readonly reasons?: Readonly<Record<string, string>>
  /** Destinations over the network only. */
  readonly promises?: Promises
  readonly examples: readonly [Example, ...Example[]]

  // For `sluice explain`.
  /** Destinations only: describes what it would do with an event. */
  explain?(options: z.output<S>, context: ComponentContext): Explain
  /** Processors only: the reasons for its decision about an event. */
  findings?(options: z.output<S>, context: ProcessorContext): FindingsOf | Promise<FindingsOf>
  /** Sources only: returns the lines that it derives from its input. Undefined: the input consists of events. */
  linesOf?(options: z.output<S>, given: Buffer, host: string): Promise<MadeLines | undefined>
}

/** The promises of a destination over the network, each as a short text for a table cell. */
export interface Promises {
  /** When an event counts as delivered. */
  readonly guarantee: string
  readonly order: string
  /** Which events can arrive twice, and how the receiver treats them. */
  readonly duplicates: string
  readonly limits: string
  /** The receivers and versions used in tests. */
  readonly tested: string
  /** Advice below the table, as Markdown. */
  readonly advice?: string
}

/** A definition without its option type. Its schema parses the options before `create`. */
// biome-ignore lint/suspicious/noExplicitAny: the one place where option types are erased
export type AnyDefinition<K extends Kind = Kind> = K extends Kind ? Definition<K, any> : never

export const defineSource = <S extends z.ZodObject>(definition: Omit<Definition<'source', S>, 'kind'>) =>
  ({ kind: 'source', ...definition }) as const satisfies Definition<'source', S>
export const defineProcessor = <S extends z.ZodObject>(definition: Omit<Definition<'processor', S>, 'kind'>) =>
  ({ kind: 'processor', ...definition }) as const satisfies Definition<'processor', S>
export const defineDestination = <S extends z.ZodObject>(definition: Omit<Definition<'destination', S>, 'kind'>) =>
  ({ kind: 'destination', ...definition }) as const satisfies Definition<'destination', S>
