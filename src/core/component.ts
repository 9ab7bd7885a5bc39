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
import type { Fact, FactSample, Shown } from './fact.js'
import type { DeliveryDefaults } from './options/delivery-options.js'
import type { Reach } from './options/reach.js'
import type { Decides, Plan } from './processor.js'
import type { ProcessorOutage } from './status-document.js'

/**
 * Version of the contract between the program and plugins. It changes when plugins for the previous version may stop
 * working.
 */
export const CONTRACT = 1

/** Only the engine calls these methods. It may call `stop` twice, or call `stop` without `start`. */
export interface Lifecycle {
  /** Connects or validates. If `start` throws a DeliveryError, the engine retries. Other errors make the start fail. */
  start?(signal: AbortSignal): Promise<void>
  /** Releases all resources. Gives up pending work when `deadline` aborts. */
  stop?(deadline: AbortSignal): Promise<void>
  /**
   * On reload, returns the state, which a successor with the same options finds in `inherited`. The engine calls this
   * method when no more events arrive, and then calls `stop`. The component must not keep a reference to the state.
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
  /** Creates the ack for a batch. When settled, the ack calls `onSettled` and frees the batch's share of the budget. */
  ack(onSettled: OnSettled): Ack
  /** Resolves when the next components have room again, and the budget of unacknowledged bytes allows another batch. */
  send(batch: EventBatch): Promise<void>
  /**
   * Only for sources with a saved position. Reports that the source has nothing left to read, or had nothing left at the
   * monotonic time `at`. Batches that it marks as backlog then show since when it is behind.
   */
  caughtUp?(at?: number): void
}

export interface Source extends Lifecycle {
  /**
   * The source cannot read its input twice, so the engine itself sends undelivered events again on reload. A source
   * with neither `once` nor `redelivers` resumes from a saved position.
   */
  readonly once?: true
  /**
   * The source has no position, but acknowledges each delivered event to its server. The server sends unacknowledged
   * events again, in any order. If an event was not delivered, the source itself reads the event again, or ends its run
   * with a GivenBackError.
   */
  readonly redelivers?: true
  /** The source answers its senders. The senders resend the events that could not be delivered. */
  readonly answers?: true
  /**
   * Reads until the input ends or the signal aborts. If `run` throws, the engine logs and counts the error, and runs
   * the source again from its checkpoint after a backoff.
   */
  run(out: Output, signal: AbortSignal): Promise<void>
}

/** Decides about events; engine/flow/stage.ts carries out the decisions. */
export interface Processor extends Decides, Lifecycle {
  /** Whether the processor delays events on purpose, for example because its options allow it to wait for a server. */
  readonly isWaiting?: boolean
  /** Set while a server that the processor needs does not reply. */
  readonly outage?: ProcessorOutage | undefined
}

/** Tries a request once. The engine (engine/flow/delivery) handles retries, batching, pauses and rejected events. */
export interface Destination extends Lifecycle {
  /**
   * Resolves when the receiver has accepted all events. Otherwise throws a DeliveryError. Any other error counts as
   * `retry`, except a TypeError, RangeError, ReferenceError, SyntaxError or failed assertion in the same turn of the
   * event loop: the engine divides the request, and rejects an event that fails alone in the same way five times. The
   * bytes of a batch are valid until its acknowledgement is settled. After the signal aborts, the acknowledgement may be
   * settled before the promise. So before the first await, copy the bytes that you need, and do not use a batch after
   * that await. `encoded`: what `encode` returned for this request.
   */
  write(
    request: readonly EventBatch[],
    signal: AbortSignal,
    partition?: string,
    encoded?: EncodedRequest,
    // biome-ignore lint/suspicious/noConfusingVoidType: most destinations return no receipt
  ): Promise<Receipt | void>
  /**
   * Returns the name of the event's partition, such as a tenant. All events of a request belong to the same partition,
   * and `write` receives its name. A partition has at most one request in flight. If the event fits no partition,
   * throws a DeliveryError, and the engine rejects the event.
   */
  partitionOf?(batch: EventBatch, i: number): string
  /** Whether all events of the batch are in the partition of its first event. Without it, the engine asks for each. */
  isOnePartition?(batch: EventBatch): boolean
  /**
   * Returns where the receiver stores the event, such as the name of an index; undefined: not known. If the events of one
   * target fail and others do not, the engine retries them separately, one request of a target at a time.
   */
  targetOf?(batch: EventBatch, i: number): string | undefined
  /** Maximum number of partitions that wait for more events at the same time. Default 100. */
  readonly mostPartitions?: number | undefined
  /**
   * Encodes a request, once for all its attempts. The engine divides a request that is too large as sent. Without this
   * method, it uses the size of the events as they were read.
   */
  encode?(request: readonly EventBatch[]): EncodedRequest
  /** Whether the destination prefers requests of whole batches. If not, the engine divides batches to fill requests. */
  readonly keepsBatches?: boolean
  /** Whether nothing uses the signal of a `write` after this `write` has settled. The signal then serves again. */
  readonly forgetsSignals?: boolean
  /** While the destination is paused: whether a change, such as a replaced key, justifies an immediate attempt. */
  changed?(): Promise<boolean>
  /**
   * Set if `write` only stores events on disk, to deliver them later as objects. The spool can be used after `start`.
   */
  readonly spool?: Spool
}

/** A request as it is sent, in the form that its destination writes. */
export interface EncodedRequest {
  /** Bytes before compression. */
  readonly size: number
  /** Called if the request is not written, because it is too large. */
  release?(): void
}

/** Events that a destination has stored, and the objects that they become. */
export interface Spool {
  /** The stored events. Metrics count them as sent when their object is delivered. */
  readonly held: { readonly events: number; readonly bytes: number }
  /** Number of objects. Open objects still grow. Closed objects are being sent or wait to be sent. */
  readonly objects: { readonly open: number; readonly closed: number }
  /** Size on disk, and its maximum. */
  readonly bytes: number
  readonly maxBytes: number
  /** When the oldest object of the spool was opened, wall clock in milliseconds; undefined: the spool has no object. */
  readonly oldestAt: number | undefined
  /** Takes a due object; undefined: no object is due. `all`: every object is due, because no more events follow. */
  next(all: boolean): SpooledObject | undefined
  /** Called by the spool when an object may be due; set by the engine. */
  changed: () => void
}

export interface SpooledObject {
  /** Tries once to send the object's next request. Resolves with true if the receiver then has the whole object. */
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
  /** With a spool: those events of the request that are already in an object. Metrics count them as sent again. */
  readonly repeated?: { readonly events: number; readonly bytes: number } | undefined
}

/** The counters of one component, as plain numbers. engine/run/measure/metrics.ts turns them into Prometheus series. */
export interface ComponentMetrics {
  /** Counts a batch taken from the component's queue. The stages call `took`; the balance check uses the counter. */
  took(events: number, bytes: number): void
  /** Counts events that went to the next components or that the receiver accepted. `output` names a side output. */
  sent(events: number, bytes: number, output?: string): void
  /** Counts events merged into events that the component will emit. */
  consumed(events: number, bytes: number): void
  /** Counts events that the component created. */
  emitted(events: number, bytes: number): void
  /** Counts intentionally discarded events; `reason` is a label. */
  discarded(reason: string, events: number, bytes: number): void
  /** Makes events that are discarded for this reason a problem: they are lost. `todo`: how to lose no more. */
  describeLoss(reason: string, todo: string): void
  /** Counts an error that lost no event; `kind` is a label. */
  failed(kind: string): void
  /**
   * Returns a counter of the component; always the same object for the same name and labels, also after a reload. So a
   * problem that a reload can correct is a fact, not a counter.
   */
  counter(
    name: string,
    help: string,
    labels?: Record<string, string>,
    shown?: Shown,
  ): { value: number; exemplar?: Exemplar }
  /** Registers a gauge that may also report a problem. */
  fact(fact: Fact): void
  /** Registers a gauge. `read` is called at each scrape. */
  gauge(name: string, help: string, read: () => number, labels?: Record<string, string>): void
  /** Registers a gauge with a changing set of series. `read` is called at each scrape. */
  gauges(name: string, help: string, read: () => Iterable<FactSample>): void
  /**
   * Registers a changing set of counters. `read` is called at each scrape. The counters replace those of the
   * predecessor. The counter with the labels `rest` must include the values of removed counters.
   */
  counters(
    name: string,
    help: string,
    rest: Record<string, string>,
    read: () => Iterable<{ labels: Record<string, string>; value: number }>,
  ): void
  histogram(name: string, help: string, buckets: readonly number[]): Observer
  /**
   * Reserves `count` series with a key as label, if their number is limited. Returns false if fewer than `count` are
   * free. When the component ends, all its series are released.
   */
  takeSeries?(count: number): boolean
  freeSeries?(count: number): void
}

export interface Observer {
  observe(value: number, exemplar?: Exemplar): void
}

/** The reason with which a source's signal aborts at a reload, while the daemon keeps running. */
export const REPLACED = Symbol('replaced')

/** The saved positions of a source: one JSON document, written atomically and soon after each change. */
export interface Checkpoints {
  /** Returns the last document; undefined if missing; null if damaged. Throws StateUnreadable if reading fails now. */
  read(): unknown
  /**
   * Sets the function that returns the state to save. This function is called at each write. A large array may be an
   * iterable with `toJSON` instead, whose items are then read in slices.
   */
  provide(snapshot: () => unknown): void
  /** Requests a write, because the state has changed. */
  changed(): void
  /** Resolves when the current state is on disk. */
  flush(): Promise<void>
  /** When the source had last read and delivered all of its input, as saved with the document; undefined: unknown. */
  readonly caughtUpAt?: number | undefined
  /** Sets the function that returns this time, wall clock in milliseconds, for each write. */
  trackCaughtUp?(caughtUpAt: () => number | undefined): void
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
  /** What a component in a managed configuration may access; undefined: everything. */
  readonly reach?: Reach | undefined
  /** State from `handOver` of the predecessor, or undefined. */
  readonly inherited?: unknown
}

/** The folder of a component in data_dir. The component creates the folder when it first stores something. */
export interface StateFolder {
  readonly path: string
  hasRoom(bytes: number): boolean
  /** Reports the size of the folder in bytes. `isLast`: the component will not write to the folder again. */
  count(bytes: () => number, isLast?: boolean): void
}

export interface ProcessorContext extends ComponentContext {
  /** The folder for state that must survive a restart; undefined if unavailable, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Creates an editor of the events that reach this component. Call it in `create` only. */
  editor(): EventEditor
}

export interface SourceContext extends ComponentContext {
  readonly checkpoints: Checkpoints
  /** Returns the origin of lines from `path`. Without `path`, returns the origin of lines from the source. */
  origin(codec: Codec, path?: string): Origin
  /**
   * Whether a destination wrote events of this source to a file. `key`: `device:inode` of the file. `birth`: when the
   * file was created, in nanoseconds.
   */
  isOwnOutput?(key: string, birth: bigint): boolean
  /** Standard input, or its replacement. */
  readonly stdin: Readable
  /** The object that knows which file systems respond. Default: one object for the whole process. */
  readonly fileSystems?: FileSystems | undefined
}

export interface DestinationContext extends ComponentContext {
  /** The folder for the spool; undefined if the spool cannot be stored, as in a test of a configuration. */
  readonly state?: StateFolder | undefined
  /** Standard output, or its replacement. */
  readonly stdout: NodeJS.WritableStream
  /** The object that knows which file systems respond. Default: one object for the whole process. */
  readonly fileSystems?: FileSystems | undefined
  /** Whether the destination may block the event loop. True if it is the only destination and has no disk buffer. */
  readonly isAlone?: boolean
  /** Registers a file that is written until the returned function is called. Sources do not read their own output. */
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
  /** Whether this machine has saved positions of the source, so its first start is over. */
  hasStarted(): boolean
}

export interface OptionProblem {
  readonly path: readonly (string | number)[]
  readonly message: string
  /** The problem is only a warning, because the missing item may exist where the configuration will be used. */
  readonly isWarning?: true
  /** The file or folder that is missing, or that this user cannot use. */
  readonly unusable?: string
}

/** The declaration of a component type: schema, texts, examples and constructor. `create` imports large code. */
export interface Definition<K extends Kind, S extends z.ZodObject> {
  readonly kind: K
  readonly type: string
  /** The plugin, with its version, that defines this type; undefined for built-in components. */
  readonly plugin?: string
  /** One sentence. */
  readonly summary: string
  readonly options: S
  /** The options that most configurations need. The reference shows them first. Undefined: all. */
  readonly usualOptions?: readonly string[]

  // Creating the component, and facts that the daemon needs before that.
  create(options: z.output<S>, context: Kinds[K]['context']): Kinds[K]['component'] | Promise<Kinds[K]['component']>
  /** Processors only: what the processor can do with events if it has these options. */
  plan?(options: z.output<S>): Plan
  /** Destinations only: the defaults of the delivery options. If missing, the defaults are those of REMOTE. */
  readonly delivery?: DeliveryDefaults
  /** Sources only: names an input that each process has only once, so that a second source of this type is an error. */
  readonly single?: string
  /** Destinations only: the option that names the output file, if any. */
  readonly writes?: string
  /**
   * Destinations only: options that are templates and name where an event goes, such as a topic. `dated`: the option
   * replaces parts of a time (core/dated.ts).
   */
  readonly addresses?: Readonly<Record<string, 'dated' | 'plain'>>
  /** Whether a destination has a `spool` below `data_dir`. */
  readonly spools?: true
  /** Processors and destinations: whether the component uses ids or positions of events (core/event/event-id.ts). */
  usesIds?(options: z.output<S>): boolean
  /** Sources only: returns a test for paths that the source reads. The test follows links only if `onThisMachine`. */
  reads?(options: z.output<S>, onThisMachine: boolean): (path: string) => boolean
  /** The file that is used if the options do not name a file, and the option that can name a different file. */
  readonly reachesUnnamed?: { readonly option: string; readonly path: string }
  /**
   * Processors only: the option that names a user's module, relative to the configuration file. `reload: watch` watches
   * the module.
   */
  readonly module?: string
  /**
   * Sources only: returns those inputs of this source that another source has already read. This source would read
   * these inputs again. `saved`: the checkpoint of the other source.
   */
  overlaps?(options: z.output<S>, saved: unknown): string[]
  /** Sources only: whether the source reads input that is older than the start of the source (EventBatch.isBacklog). */
  catchesUp?(options: z.output<S>): boolean

  // Fields of events.
  /** Returns the fields that events of a source can have, or that a processor adds to events; undefined: any field. */
  fields?(options: z.output<S>): EventFields | undefined
  /** Processors only: how the processor finds the time of events; undefined: it does not find the time. */
  findsTime?(options: z.output<S>): TimeSearch | undefined
  /** Returns the options that name event fields. */
  usesFields?(options: z.output<S>): readonly UsedField[]
  /** Processors and destinations: whether the component uses only the fields in `usesFields` and the lines as read. */
  copiesLines?(options: z.output<S>): boolean

  // For the reference.
  /** Text after the summary about rules for several options. The schema can check these rules, but not express them. */
  readonly notes?: string
  /** Processors only: the meaning of every discard reason. */
  readonly reasons?: Readonly<Record<string, string>>
  /** Sources, and destinations over the network. */
  readonly promises?: Promises
  readonly examples: readonly [Example, ...Example[]]

  // The code of these groups is loaded when they are asked for, so that a start loads only the code that it runs.
  checks?(): Promise<Checks<z.output<S>>>
  explains?(): Promise<Explains<K, z.output<S>>>
  inspects?(): Promise<Inspects<z.output<S>>>
}

/** For `sluice validate`: what it finds about valid options. */
export interface Checks<O> {
  /**
   * Returns warnings about options that are rarely intended. `upstream`: the components whose events reach this
   * component. This method may call `stat` for files, but must not open them.
   */
  warnings?(options: O, upstream: readonly Upstream[]): MaybePromise<readonly OptionProblem[]>
  /** Returns problems that show only on reading the files and modules that the options name. */
  checkFiles?(options: O): MaybePromise<readonly (OptionProblem | FileProblem)[]>
}

/** For `sluice explain` and `simulate`: what becomes of an event. */
export interface Explains<K extends Kind, O> {
  /** Destinations only: describes what the destination would do with an event. */
  explain?(options: O, context: ComponentContext): Explain
  /** Processors only: the reasons for the processor's decision about an event. */
  findings?(options: O, context: Kinds[K]['context']): MaybePromise<FindingsOf>
  /**
   * Sources only: returns the lines that the source derives from its input. Undefined: the input consists of events.
   */
  linesOf?(options: O, given: Buffer, host: string): MadeLines | undefined
}

/** For `sluice validate --online` and `doctor`: what the component would find on this machine and its servers. */
export interface Inspects<O> {
  /**
   * Connects as the running component does, and checks keys and permissions as far as this is possible without sending
   * an event. Resolves with a description of the checks; undefined: nothing to check. Throws an error that describes the
   * problem.
   */
  check?(options: O, context: ComponentContext, signal: AbortSignal): Promise<string | undefined>
  /** Sources only: the files that the source would read if it never ran before; undefined: no or unknown files. */
  filesThere?(options: O): FilesThere | undefined
}

type MaybePromise<T> = T | Promise<T>

/** The promises of a source, or of a destination over the network, each as a short text for a table cell. */
export interface Promises {
  /** When an event counts as delivered, or which events of a source are read again. */
  readonly guarantee: string
  readonly order: string
  /** Which events can arrive twice, and how a receiver treats them. */
  readonly duplicates: string
  readonly limits: string
  /** The receivers or senders used in tests, with versions. */
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
