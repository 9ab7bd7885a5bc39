import type { BigIntStats } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { FileSystems } from '../lib/files/remote/file-systems.js'
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

/** The version of the contract between the program and plugins. It changes when a plugin for the one before might not work. */
export const CONTRACT = 1

/** The engine alone calls start and stop. It may call stop twice, and without a start. */
export interface Lifecycle {
  /** Connects or validates. Throws a DeliveryError (the engine retries) or any other error (the start fails). */
  start?(signal: AbortSignal): Promise<void>
  /** Releases all resources. Gives up pending work when `deadline` aborts. */
  stop?(deadline: AbortSignal): Promise<void>
  /**
   * On reload, returns state for a successor with the same options, which receives it as `inherited`. Called before
   * `stop`, when no more events arrive. The component must keep no reference to that state. Processors and destinations
   * only.
   */
  handOver?(): HandoverState | undefined
}

/** State that a component passes to its successor. */
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
   * The source cannot read its input twice. On reload, the engine itself resends undelivered events. Without it and
   * `redelivers`, the source reads on from a position that it has saved.
   */
  readonly once?: true
  /**
   * The server that it reads from is told of each event that was delivered, and gives the others again, in any order:
   * there is no position. When events come back undelivered, the source reads them again by itself, or ends its run with
   * a GivenBackError.
   */
  readonly redelivers?: true
  /** The source answers its senders, and they resend the events that could not be delivered. */
  readonly answers?: true
  /**
   * Reads until the input ends or the signal aborts. When it rejects, the engine logs and counts the error and runs it
   * again from its checkpoint after a backoff.
   */
  run(out: Output, signal: AbortSignal): Promise<void>
}

/** Decides about events; engine/flow/stage.ts carries out the decisions. */
export interface Processor extends Decides, Lifecycle {
  /** Starts counting decisions by key. Only for processors that decide by key; they count nothing otherwise. */
  watchKeys?(): KeyWatch
  /**
   * Shows each batch with its decisions until the result is called. Only for processors that decide by key. The same
   * function is called once, however often it was given.
   */
  watchDecisions?(see: SeeDecisions): () => void
  /** The bucket of event `i`, about which it has decided. Only for processors that decide by key. */
  bucketOf?(batch: EventBatch, i: number): EventBucket
  /**
   * The state of a bucket. Only for processors that decide by key. `rule`: the rule whose bucket it is, as in
   * BucketState, null if none is; undefined: the one that applies to its events as far as is known.
   */
  bucket?(key: string | null, rule?: string | null): BucketState
  /** What these events, which are LATER, wait for. Only for processors whose plan `waits`. */
  waitsFor?(events: Iterable<EventBatch>): WaitState
  /** It holds events back for good reason, such as a server that its options say to wait for. */
  readonly isWaiting?: boolean
  /** A server that it needs does not reply. */
  readonly outage?: ProcessorOutage | undefined
}

/**
 * Sees the decisions about a batch, as the processor numbers them, before its events leave. Must keep neither.
 * `key`: the fields of the key; none: all events share one bucket. `buckets`: of the events, if they are known.
 */
export type SeeDecisions = (
  batch: EventBatch,
  decisions: Uint8Array,
  key: readonly FieldReader[],
  buckets?: KnownBuckets,
) => void

/** The number of the bucket of each event; negative: unknown. `owner` changes when numbers may be those of other buckets. */
export interface KnownBuckets {
  readonly ids: Int32Array
  readonly owner: number
}

/** Where an event counts. */
export interface EventBucket {
  /** The name of the bucket; null: the default one. */
  readonly bucket: string | null
  /** The rule that applies to it, as people find it in the configuration; missing: none. */
  readonly rule?: string
}

/** A server that a processor needs does not reply; `isStuck`: it does not finish itself. Times are ISO 8601. */
export interface ProcessorOutage {
  readonly isStuck?: true
  /** The last error. */
  readonly reason: string
  readonly since: string
  /** Failures since then. */
  readonly attempts: number
  /** Missing while it is tried. */
  readonly next_attempt?: string
  /** What happens to events. */
  readonly meanwhile: string
}

/** The state of a bucket of events, as an operator sees it. */
export interface BucketState {
  /** The rule whose bucket it is, as people find it in the configuration. */
  readonly rule?: string
  /** The limit that is nearest: what may pass in one window, in its unit. Missing if others share it, or none is known. */
  readonly limit?: number
  readonly unit?: 'events' | 'bytes' | 'cost'
  readonly window_ms?: number
  readonly window_mode?: string
  /** What has passed in the window. */
  readonly used?: number
  /** Of the open window, ISO 8601; missing if there is none. */
  readonly since?: string
  readonly until?: string
  /** The server that counts does not reply: `used` is what it said last. */
  readonly outage?: ProcessorOutage
  readonly discarded_last_hour: number
  /** False: that is an estimate. */
  readonly is_exact: boolean
}

/** The events that wait in a processor, as an operator sees them. */
export interface WaitState {
  /** Why they wait: options of the processor, as people write them. */
  readonly options: readonly string[]
  /** What they wait for, the one with most events first; not necessarily all. */
  readonly buckets: readonly BucketWait[]
}

/** The events of a bucket (null: the default one) that wait, and when the first of them was read, ISO 8601. */
export interface BucketWait {
  readonly key: string | null
  readonly events: number
  readonly since: string
}

/** What a daemon answers about a bucket. */
export interface LiveBucket extends BucketState {
  readonly key: string | null
  /** Its events that wait for room, and why. Missing if there are none, or many other buckets have more. */
  readonly waiting?: BucketWait & Pick<WaitState, 'options'>
  /** The components that read discarded events; null: a throttle in shadow discards none. */
  readonly discarded_to: readonly string[] | null
}

/** The decisions about the events of one key. */
export interface KeyCount {
  /** Null for events without a key. A long one is cut, and ends with its digest. */
  readonly key: string | null
  readonly passed: number
  readonly discarded: number
  /** Missing for a key that is cut. */
  readonly bucket?: BucketState | undefined
}

export interface KeyCounts {
  /** False: only a sample was counted, and scaled up. */
  readonly exact: boolean
  /** The busiest first. */
  readonly keys: readonly KeyCount[]
  /** The components that read discarded events; null: a throttle in shadow discards none. */
  readonly discarded_to?: readonly string[] | null
}

export interface KeyWatch {
  /** Stops counting and returns the `most` busiest keys. */
  end(most: number): KeyCounts
}

/** Makes single attempts. Retries, batching, pauses and dead letters belong to the engine (engine/flow/delivery). */
export interface Destination extends Lifecycle {
  /**
   * Resolves when all events are accepted. Otherwise throws a DeliveryError; any other error counts as `retry`.
   * A retry gets the same array, so data derived from it can be cached in a WeakMap, unless the request was divided.
   * The bytes of a batch are valid until its acknowledgement is settled. After the signal aborts, that may be before the
   * promise settles: copy the bytes you need before the first await, and do not touch a batch after it.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most destinations return no receipt
  write(request: readonly EventBatch[], signal: AbortSignal, partition?: string): Promise<Receipt | void>
  /**
   * Divides events into partitions, such as tenants, by the name that it returns. All events of a request are of one
   * partition, and `write` gets its name. A partition has one request at a time. Throws a DeliveryError for an event
   * that can be in none: the event is rejected.
   */
  partitionOf?(batch: EventBatch, i: number): string
  /** Partitions that may wait for more events at the same time. If missing, 100. */
  readonly mostPartitions?: number | undefined
  /**
   * The size of a request as sent, in bytes before compression. If it is at most `maxBytes`, the request is written
   * next, so its encoding may be cached. If missing, the size as read is used.
   */
  sizeOf?(request: readonly EventBatch[], maxBytes: number): number
  /** Whether requests of whole batches cost it less than full ones. If missing, batches are divided to fill requests. */
  readonly keepsBatches?: boolean
  /** While paused: whether something changed (such as a replaced key) that makes an immediate attempt worthwhile. */
  changed?(): Promise<boolean>
  /** Set if `write` only stores events on disk, and objects of them are delivered later. It is usable after `start`. */
  readonly spool?: Spool
}

/** Events that a destination has taken over, and the objects that they become. */
export interface Spool {
  /** The events that it holds. They count as sent when their object is delivered, by `sent` of the metrics. */
  readonly held: { readonly events: number; readonly bytes: number }
  /** Objects that still grow, and those that are sent or wait for that. */
  readonly objects: { readonly open: number; readonly closed: number }
  /** When its oldest object was opened, wall clock in milliseconds; undefined if there is none. */
  readonly oldestAt: number | undefined
  /** Takes an object that is due. `all`: no more events come, so that all of them are. */
  next(all: boolean): SpooledObject | undefined
  /** Called when an object may be due; set by the engine. */
  changed: () => void
}

/** An object on its way. */
export interface SpooledObject {
  /** Makes one attempt at its next request. Resolves with true when the receiver has taken the whole object. */
  send(signal: AbortSignal): Promise<boolean>
  /** It is delivered. */
  delivered(): Promise<void>
  /** It is not sent any more in this run. */
  release(): void
}

/** The request that last changed a counter, as an OpenMetrics exemplar. */
export interface Exemplar {
  readonly requestId: string
  /** Wall clock in milliseconds. */
  readonly at: number
}

/** Describes an accepted request. */
export interface Receipt {
  /** The receiver's identifier of the request. */
  readonly requestId?: string | undefined
  /** With a spool: events of the request that were in an object already, and count as sent once more. */
  readonly repeated?: { readonly events: number; readonly bytes: number } | undefined
}

/** The counters of one component, as plain numbers. engine/run/measure/metrics.ts turns them into Prometheus series. */
export interface ComponentMetrics {
  /** Counts a batch taken from the component's queue. Called by the stages; the balance check uses it. */
  took(events: number, bytes: number): void
  /** Counts events passed to the next components or accepted by the receiver. `output` names a side output. */
  sent(events: number, bytes: number, output?: string): void
  /** Counts events merged into what the component emits. */
  consumed(events: number, bytes: number): void
  /** Counts events that the component created. */
  emitted(events: number, bytes: number): void
  /** Counts events discarded on purpose; `reason` is a label. */
  discarded(reason: string, events: number, bytes: number): void
  /** Counts an error that lost no event; `kind` is a label. */
  failed(kind: string): void
  /** Returns a counter of the component; always the same object for the same name and labels. */
  counter(name: string, help: string, labels?: Record<string, string>): { value: number; exemplar?: Exemplar }
  /** Registers a gauge, read at each scrape. */
  gauge(name: string, help: string, read: () => number, labels?: Record<string, string>): void
  /** Registers a gauge whose series appear and disappear, read at each scrape. */
  gauges(name: string, help: string, read: () => Iterable<{ labels: Record<string, string>; value: number }>): void
  /**
   * Registers counters that appear and disappear, read at each scrape, in the place of those that a predecessor
   * registered. What one of them has counted has to be in the counter with the labels `rest` when it is gone.
   */
  counters(
    name: string,
    help: string,
    rest: Record<string, string>,
    read: () => Iterable<{ labels: Record<string, string>; value: number }>,
  ): void
  histogram(name: string, help: string, buckets: readonly number[]): Observer
  /** Takes room for series by key, where it is bounded. False: there is none. All of it is free when the component ends. */
  takeSeries?(count: number): boolean
  freeSeries?(count: number): void
}

/** Records observations of a histogram. */
export interface Observer {
  observe(value: number, exemplar?: Exemplar): void
}

/** The abort reason of a source's signal at a reload: the daemon keeps running. */
export const REPLACED = Symbol('replaced')

/** The saved positions of a source: one JSON document, written atomically and soon after each change. */
export interface Checkpoints {
  /** The last document; undefined: none, null: damaged. Throws StateUnreadable if it cannot be read now. */
  read(): unknown
  /** Sets the function that returns the committed state, called at each write. */
  provide(snapshot: () => unknown): void
  /** Reports that the committed state has changed. */
  changed(): void
  /** Resolves when the current state is on disk. */
  flush(): Promise<void>
  /** Path of the file, for messages. */
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
  /** State from `handOver` of the predecessor; undefined if there is none. */
  readonly inherited?: unknown
}

/** The folder of a component in data_dir, which it makes when it has something to keep there. */
export interface StateFolder {
  readonly path: string
  /** Whether `bytes` more may be written. */
  hasRoom(bytes: number): boolean
  /** Says how many bytes are in it; `isLast`: nothing is written to it any more. */
  count(bytes: () => number, isLast?: boolean): void
}

export interface ProcessorContext extends ComponentContext {
  /** Where state is kept that a restart shall not lose; undefined: nowhere, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Creates an editor of the events that reach this component. Call it in `create` only. */
  editor(): EventEditor
}

export interface SourceContext extends ComponentContext {
  readonly checkpoints: Checkpoints
  /** The origin of lines from `path`, or from the source as a whole. */
  origin(codec: Codec, path?: string): Origin
  /** Whether a destination wrote events of this source to this file, given as `device:inode` and its birth time. */
  isOwnOutput?(key: string, birth: bigint): boolean
  /** Standard input, or its replacement. */
  readonly stdin: Readable
  /** Which file systems respond; default: those of the process. */
  readonly fileSystems?: FileSystems | undefined
}

export interface DestinationContext extends ComponentContext {
  /** Where a spool is kept; undefined: nowhere, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Standard output, or its replacement. */
  readonly stdout: NodeJS.WritableStream
  /** Which file systems respond; default: those of the process. */
  readonly fileSystems?: FileSystems | undefined
  /** Whether nobody else waits when it stops the process: it is the only destination, and has no buffer on disk. */
  readonly isAlone?: boolean
  /** Registers a file being written, until the result is called. Sources do not read their own events from it. */
  writes?(file: Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>): () => void
}

export interface Kinds {
  source: { component: Source; context: SourceContext }
  processor: { component: Processor; context: ProcessorContext }
  destination: { component: Destination; context: DestinationContext }
}
export type Kind = keyof Kinds

/** Files that are there before a source starts. */
export interface FilesThere {
  readonly files: number
  readonly bytes: number
  /** Whether there may be more. */
  readonly mayBeMore: boolean
}

/** A component whose events reach another one. */
export interface Upstream {
  readonly id: string
  readonly definition: AnyDefinition
  readonly options: unknown
}

/** What a component finds wrong with its options. */
export interface OptionProblem {
  readonly path: readonly (string | number)[]
  readonly message: string
  /** It may not exist where the configuration will be used: only a warning. */
  readonly isWarning?: true
}

/**
 * The declaration of a component type: its schema, texts and examples, and how it is created. Code that is not small is
 * imported by the function that needs it, so that a start loads only what runs, and nothing that explains.
 */
export interface Definition<K extends Kind, S extends z.ZodObject> {
  readonly kind: K
  readonly type: string
  /** The plugin that it is of, and its version; undefined: it comes with the program. */
  readonly plugin?: string
  /** One sentence. */
  readonly summary: string
  readonly options: S
  /** The options that most configurations need. The reference shows them first. Undefined: all. */
  readonly usualOptions?: readonly string[]

  // What runs it, and what the daemon has to know before.
  /** Makes a component that runs with these options. */
  create(options: z.output<S>, context: Kinds[K]['context']): Kinds[K]['component'] | Promise<Kinds[K]['component']>
  /** Processors only: what it can do with events, given its options. */
  plan?(options: z.output<S>): Plan
  /** Destinations only: its defaults of the delivery options, if they differ. */
  readonly delivery?: DeliveryDefaults
  /** Sources only: an input that exists once per process. A second source of this type is a configuration error. */
  readonly single?: string
  /** Destinations only: the option that names the output file, if any. */
  readonly writes?: string
  /** Destinations only: whether it has a `spool` below `data_dir`. */
  readonly spools?: true
  /** Processors and destinations: whether it uses the ids or the places of events (core/event/event-id.ts). */
  usesIds?(options: z.output<S>): boolean
  /** Sources only: returns a test for the paths that it reads. Follows links only if `onThisMachine`. */
  reads?(options: z.output<S>, onThisMachine: boolean): (path: string) => boolean
  /** The file that is used when the options name none, and the option that names another. */
  readonly reachesUnnamed?: { readonly option: string; readonly path: string }
  /** Processors only: the option with a module of users, from the configuration file on. `reload: watch` looks at it. */
  readonly module?: string
  /** Sources only: the inputs that it would read again after another source with these saved positions. */
  overlaps?(options: z.output<S>, saved: unknown): string[]
  /** Sources only: whether it reads what was written before it started (EventBatch.isBacklog). */
  catchesUp?(options: z.output<S>): boolean
  /** Sources only: the files that a first start would read now; undefined: none, or it is not known. */
  filesThere?(options: z.output<S>): FilesThere | undefined

  // Fields of events.
  /** The fields that events of a source can have, or that a processor adds to them; undefined: any. */
  fields?(options: z.output<S>): EventFields | undefined
  /** Processors only: how it finds the time of events by itself; undefined: it does not. */
  findsTime?(options: z.output<S>): TimeSearch | undefined
  /** The options that name event fields. */
  usesFields?(options: z.output<S>): readonly UsedField[]
  /** Processors and destinations: whether they use nothing of events but the lines as read, and these fields. */
  copiesLines?(options: z.output<S>): boolean

  // Checks of a configuration, beside those of the schema.
  /**
   * Warnings about options that are valid but rarely intended, given the components whose events reach this one. May
   * stat files but not open them.
   */
  warnings?(options: z.output<S>, upstream: readonly Upstream[]): readonly OptionProblem[]
  /** Problems that only reading the files and modules shows that the options name. For `sluice validate`. */
  checkFiles?(options: z.output<S>): Promise<readonly (OptionProblem | FileProblem)[]>

  /**
   * For `sluice validate --online`: connects as it would run, and checks keys and rights as far as that needs no event.
   * Resolves with what was checked; undefined: there is nothing to check. Throws what is wrong.
   */
  check?(options: z.output<S>, context: ComponentContext, signal: AbortSignal): Promise<string | undefined>

  // For the reference.
  /** More than the summary. Describes rules across options, which the schema checks but cannot express. */
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
  /** Sources only, if their input is not their events yet: the lines made of it. Undefined: it is events. */
  linesOf?(options: z.output<S>, given: Buffer, host: string): Promise<MadeLines | undefined>
}

/** What a destination over the network promises. Each is a short text for a cell of a table. */
export interface Promises {
  /** When an event counts as delivered. */
  readonly guarantee: string
  readonly order: string
  /** What can arrive twice, and what the receiver does with it. */
  readonly duplicates: string
  readonly limits: string
  /** The receivers, with their versions, that tests use. */
  readonly tested: string
}

/** A definition whose option type is forgotten: options are parsed by its own schema before `create`. */
// biome-ignore lint/suspicious/noExplicitAny: the one place where option types are erased
export type AnyDefinition<K extends Kind = Kind> = K extends Kind ? Definition<K, any> : never

export const defineSource = <S extends z.ZodObject>(definition: Omit<Definition<'source', S>, 'kind'>) =>
  ({ kind: 'source', ...definition }) as const satisfies Definition<'source', S>
export const defineProcessor = <S extends z.ZodObject>(definition: Omit<Definition<'processor', S>, 'kind'>) =>
  ({ kind: 'processor', ...definition }) as const satisfies Definition<'processor', S>
export const defineDestination = <S extends z.ZodObject>(definition: Omit<Definition<'destination', S>, 'kind'>) =>
  ({ kind: 'destination', ...definition }) as const satisfies Definition<'destination', S>
