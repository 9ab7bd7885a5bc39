import type { BigIntStats } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { FileSystems } from '../lib/files/remote/file-systems.js'
import type { TimerClock } from '../lib/time.js'
import type { Codec } from './codec.js'
import type { Ack, AckStatus } from './event/ack.js'
import type { EventBatch } from './event/batch.js'
import type { EventFields, UsedField } from './event/event-fields.js'
import type { FieldPath } from './event/field-path.js'
import type { FieldReader } from './event/field-reader.js'
import type { Origin } from './event/origin.js'
import type { Explain, Finding } from './explain.js'
import type { DeliveryDefaults } from './options/delivery-options.js'
import type { Reach } from './options/reach.js'
import type { Decides, Plan } from './processor.js'

/** start and stop are called by the engine only; stop may come twice, and without a start. */
export interface Lifecycle {
  /** Connects or validates. Throws DeliveryError (the engine tries again) or any error (the start fails). */
  start?(signal: AbortSignal): Promise<void>
  /** Lets go of everything; what is pending at the deadline is given up. */
  stop?(deadline: AbortSignal): Promise<void>
  /**
   * Called before `stop` when one with the same options is going to take its place, and nothing comes any more: what
   * that one finds as `inherited`. It must keep nothing of it. Processors and destinations only.
   */
  handOver?(): HandoverState | undefined
}

/** State that a component passes to its successor. */
export interface HandoverState {
  readonly value: unknown
  /** Releases it when nobody takes it. */
  readonly release?: () => Promise<void>
}

/** Where a source puts its batches. */
export interface Output {
  /** An ack for a batch to be sent here: frees its share of the budget, then calls `onSettled`. */
  ack(onSettled: (status: AckStatus) => void): Ack
  /** Resolves when downstream has room again and the budget of unacknowledged bytes allows more. */
  send(batch: EventBatch): Promise<void>
}

export interface Source extends Lifecycle {
  /**
   * What it sends cannot be read again: when what is behind it is replaced while it runs, the engine sends again what
   * came back undelivered, instead of giving it back to the source.
   */
  readonly once?: true
  /** Why it reads nothing until an operator helps; undefined: it reads. */
  readonly heldBy?: string | undefined
  /** Whoever sent the events hears that they were given back, and sends them again. */
  readonly answers?: true
  /**
   * Runs until the input ends or the signal aborts, then resolves. A rejection is logged and counted, and the engine
   * runs it again after a while: from its checkpoint.
   */
  run(out: Output, signal: AbortSignal): Promise<void>
}

/** Decides about events; flow/stage.ts does what it decides. */
export interface Processor extends Decides, Lifecycle {
  /** Counts what is decided, by key, from now on. Of processors that decide by key; nothing is counted while nobody asks. */
  watchKeys?(): KeyWatch
}

/** What was decided of the events of one key. */
export interface KeyCount {
  /** Null: the events without one. */
  readonly key: string | null
  readonly passed: number
  readonly discarded: number
}

export interface KeyCounts {
  /** False: there was so much that only a sample was counted, which stands for the rest. */
  readonly exact: boolean
  /** The busiest first. */
  readonly keys: readonly KeyCount[]
}

export interface KeyWatch {
  /** Ends the counting: the `most` busiest keys since it began. */
  end(most: number): KeyCounts
}

/** One attempt at a time: retry, batching, holding and dead letters are the engine's (flow/delivery/delivery.ts). */
export interface Destination extends Lifecycle {
  /**
   * Resolves when all events are accepted; throws DeliveryError otherwise, and any other error is taken as `retry`.
   *
   * A retry gets the same array, so what was made of a request can be kept by it, in a WeakMap. It gets another one when the
   * request was cut, or when the answer distinguished its events.
   *
   * The bytes of a batch are valid until its acknowledgement is settled. That may be before the returned promise is: when the
   * signal aborts, nobody waits for it any more. So copy what you need of them before the first wait (a connection,
   * compression, a write that may be late), and touch no batch after it.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most destinations know nothing of a request but that it was accepted
  write(request: readonly EventBatch[], signal: AbortSignal): Promise<Receipt | void>
  /**
   * The bytes that a request is sent as, before compression. Where they are at most `maxBytes` the request is written
   * next, so that its encoding may be kept. Left out: about as many as were read.
   */
  sizeOf?(request: readonly EventBatch[], maxBytes: number): number
  /** While on hold: whether something changed (a key was replaced) so that a new attempt makes sense at once. */
  changed?(): Promise<boolean>
}

/** The request by which something was counted last; OpenMetrics shows it. */
export interface Exemplar {
  readonly requestId: string
  /** Wall clock in milliseconds. */
  readonly at: number
}

/** What is known of a request that was accepted. */
export interface Receipt {
  /** What the receiver calls it. */
  readonly requestId: string | undefined
}

/** What one component counts, as plain numbers; engine/measure/metrics.ts turns them into Prometheus series. */
export interface ComponentMetrics {
  /** A batch was taken from the component's queue: counted by the shells, for the check of the balance. */
  took(events: number, bytes: number): void
  /** Events went on to the next components, or were accepted by the receiver. `output`: one beside the main one. */
  sent(events: number, bytes: number, output?: string): void
  /** Events became part of what the component emits. */
  consumed(events: number, bytes: number): void
  /** Events of the component's own making. */
  emitted(events: number, bytes: number): void
  /** Events on purpose not passed on; `reason` is a label. */
  discarded(reason: string, events: number, bytes: number): void
  /** Something went wrong without an event being lost; `kind` is a label. */
  failed(kind: string): void
  /** A counter of the component's own; the same object each time for the same name and labels. */
  counter(name: string, help: string, labels?: Record<string, string>): { value: number; exemplar?: Exemplar }
  /** A gauge, read at each scrape. */
  gauge(name: string, help: string, read: () => number, labels?: Record<string, string>): void
  /** Gauges that come and go: read at each scrape. */
  gauges(name: string, help: string, read: () => Iterable<{ labels: Record<string, string>; value: number }>): void
  histogram(name: string, help: string, buckets: readonly number[]): Observer
}

/** Takes what a histogram is made of. */
export interface Observer {
  observe(value: number, exemplar?: Exemplar): void
}

/** Why a source's signal aborts at a reload. It does not mean that the daemon stops. */
export const REPLACED = Symbol('replaced')

/** A source's saved positions: one JSON document a source, written soon after it changed, atomically. */
export interface Checkpoints {
  /** What was saved last; undefined: nothing; null: it was damaged. Throws StateUnreadable when it cannot be read now. */
  read(): unknown
  /** How to get the committed state at the moment of writing. */
  provide(snapshot: () => unknown): void
  /** The committed state has changed. */
  changed(): void
  /** Resolves when the present state is on disk. */
  flush(): Promise<void>
  /** The file that they are saved in, for messages. */
  readonly file?: string
  /** When the state was last written (or found unchanged), wall clock in milliseconds; 0: never. */
  readonly savedAt: number
}

export interface ComponentContext {
  readonly id: string
  readonly log: Logger
  readonly clock: TimerClock
  readonly metrics: ComponentMetrics
  /** A reader of a field of the events that reach this component. Call it in `create` only. */
  field(path: FieldPath): FieldReader
  /** The bounds of a component that a configuration from elsewhere has; undefined: there are none. */
  readonly reach?: Reach | undefined
  /** What `handOver` of the component gave whose place this one takes; undefined where there is none. */
  readonly inherited?: unknown
}

export interface SourceContext extends ComponentContext {
  readonly checkpoints: Checkpoints
  /** The origin of lines from `path`, or of the source as a whole. */
  origin(codec: Codec, path?: string): Origin
  /** Whether a file, as `device:inode` and with its time of birth, was written by a destination with events of this source. */
  isOwnOutput?(key: string, birth: bigint): boolean
  /** Standard input, or what stands in for it. */
  readonly stdin: Readable
  /** Which file systems answer; those of the process when left out. */
  readonly fileSystems?: FileSystems | undefined
}

export interface DestinationContext extends ComponentContext {
  /** Standard output, or what stands in for it. */
  readonly stdout: NodeJS.WritableStream
  /** Which file systems answer; those of the process when left out. */
  readonly fileSystems?: FileSystems | undefined
  /** It writes to this file until the result is called: sources do not read there what was theirs. */
  writes?(file: Pick<BigIntStats, 'dev' | 'ino' | 'birthtimeNs'>): () => void
}

export interface Kinds {
  source: { component: Source; context: SourceContext }
  processor: { component: Processor; context: ComponentContext }
  destination: { component: Destination; context: DestinationContext }
}
export type Kind = keyof Kinds

export interface Example {
  readonly title: string
  /** The component's options as YAML, without `type` and `inputs`. */
  readonly yaml: string
  /** NDJSON lines in, and what leaves: run by the tests. Processors only. */
  readonly input?: readonly string[]
  readonly output?: readonly string[]
}

export interface OptionWarning {
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** What a source makes of its input before there are events. */
export interface MadeLines {
  /** The events, a line each, as the source reads them on. */
  readonly lines: Buffer
  /** Of what, in words: `an entry of the journal`. */
  readonly of: string
}

/** The declaration of a component type: schema, text, examples and code in one place. */
export interface Definition<K extends Kind, S extends z.ZodObject> {
  readonly kind: K
  readonly type: string
  /** One sentence. */
  readonly summary: string
  /** More, for the reference. Rules across options that the schema checks but cannot show are described here. */
  readonly notes?: string
  readonly options: S
  readonly examples: readonly [Example, ...Example[]]
  /** Processors only: what it can do with events, by its options. */
  plan?(options: z.output<S>): Plan
  /** Processors only: every reason that a plan can have, with what it means, for the reference. */
  readonly reasons?: Readonly<Record<string, string>>
  /** Sources only: what it reads, where a process has one of it. A second source of the type is a configuration error. */
  readonly single?: string
  /** The files that it uses when its options name none, and the option that would name others. */
  readonly reachesUnnamed?: { readonly option: string; readonly path: string }
  /** Sources only: whether it reads a file of this path. Links are followed with `onThisMachine` only. */
  reads?(options: z.output<S>, onThisMachine: boolean): (path: string) => boolean
  /** Sources only: the fields that its events can have; undefined, or nothing: any. */
  fields?(options: z.output<S>): EventFields | undefined
  /** The options that name fields of events. */
  usesFields?(options: z.output<S>): readonly UsedField[]
  /** What `sluice validate` warns of: it holds, and hardly anybody means it. Files may be examined, and not opened. */
  warnings?(options: z.output<S>): readonly OptionWarning[]
  /** Destinations only: the option that names the file that is written to, where there is one. */
  readonly writes?: string
  /** Destinations only: defaults of the delivery options, where a destination of this type wants others. */
  readonly delivery?: DeliveryDefaults
  create(options: z.output<S>, context: Kinds[K]['context']): Kinds[K]['component'] | Promise<Kinds[K]['component']>
  /** Sources only: what this one would read of that which another source has read, by the saved positions of that one. */
  overlaps?(options: z.output<S>, saved: unknown): string[]
  /** Destinations only: says what it would do with an event, for `sluice explain`. */
  explain?(options: z.output<S>, context: ComponentContext): Explain
  /** Processors only: why it decides about an event as it does, for `sluice explain`. */
  findings?(options: z.output<S>, context: ComponentContext): (batch: EventBatch) => readonly Finding[]
  /** Of sources whose input is not their events yet, for `sluice explain`. Undefined: what is given are events. */
  linesOf?(options: z.output<S>, given: Buffer, host: string): MadeLines | undefined
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
