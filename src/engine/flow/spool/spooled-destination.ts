import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { type Encoding, encodeAlone } from '../../../core/codecs/encode.js'
import type { Destination, DestinationContext, HandoverState, Receipt, Spool } from '../../../core/component.js'
import { DeliveryError, errorText } from '../../../core/errors.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { showStored } from '../almost-full.js'
import { add } from '../counters.js'
import { folderOnDisk } from '../disk-buffer/files.js'
import { encodeIds } from './ids.js'
import { framed, type ObjectFile } from './object-file.js'
import { MOST_OBJECTS, ObjectSpool } from './spool.js'
import { SpoolReport } from './spool-report.js'

export interface ObjectStore extends Pick<Destination, 'changed' | 'handOver'> {
  open(signal: AbortSignal): Promise<void>
  /**
   * Makes one attempt at the object's next request. Returns true when the receiver has accepted the whole object.
   * Throws a DeliveryError.
   */
  send(object: ObjectFile, signal: AbortSignal): Promise<boolean>
  stop(deadline: AbortSignal): Promise<void>
}

export type Compression = 'gzip' | 'zstd' | 'none'

export interface ObjectFormat {
  readonly encoding: Encoding
  readonly compression: Compression
  readonly object: { readonly max_bytes: number; readonly max_age: number }
  readonly spool: { readonly max_bytes: number }
}

export interface ObjectNames {
  /** The beginning of the object name for an event. Throws a DeliveryError if the event fits no object. */
  prefixOf(batch: EventBatch, i: number): string
  /** Whether all events of the batch have the prefix of its first event. */
  isOnePrefix(batch: EventBatch): boolean
}

const ENDS: Readonly<Record<Compression, { readonly suffix: string; readonly type?: string }>> = {
  none: { suffix: '' },
  gzip: { suffix: '.gz', type: 'application/gzip' },
  zstd: { suffix: '.zst', type: 'application/zstd' },
}
const LF = 0x0a
const NEWLINE = Buffer.from('\n')

/** The name of an object. Names are unique. Within a partition, they sort by time. */
export function objectKey(prefix: string, format: ObjectFormat, openedAt: number, id: string): string {
  const time = new Date(openedAt).toISOString().replace(/[-:]|\.\d+/g, '')
  return `${prefix}${time}-${id}${endingOf(format)}`
}

function endingOf({ encoding, compression }: ObjectFormat): string {
  const name = encoding === 'raw' ? 'log' : encoding.name === 'json' ? 'ndjson' : encoding.name
  return `.${name}${ENDS[compression].suffix}`
}

const typeOf = ({ encoding, compression }: ObjectFormat) =>
  ENDS[compression].type ??
  (encoding === 'raw' ? 'text/plain; charset=utf-8' : (encoding.definition.contentType ?? 'application/octet-stream'))

/** Compresses the content of one write. The results of several writes can be concatenated. */
export async function compress(content: Buffer, compression: Exclude<Compression, 'none'>): Promise<Buffer> {
  const { zstdCompress } = zlib as unknown as { readonly zstdCompress: typeof zlib.gzip }
  return await promisify(compression === 'gzip' ? zlib.gzip : zstdCompress)(content)
}

export class SpooledDestination implements Destination {
  readonly spool: Spool
  readonly partitionOf: NonNullable<Destination['partitionOf']>
  readonly isOnePartition: NonNullable<Destination['isOnePartition']>
  readonly mostPartitions = MOST_OBJECTS
  readonly #spool: ObjectSpool
  readonly #format: ObjectFormat
  readonly #store: ObjectStore
  readonly #context: DestinationContext
  readonly #repeated: { value: number }

  constructor(format: ObjectFormat, names: ObjectNames, store: ObjectStore, context: DestinationContext) {
    const { state, clock, metrics } = context
    if (!state) throw new Error('a destination with a spool needs a folder')
    const folder = folderOnDisk(state.path)
    const spool = new ObjectSpool({
      folder,
      state,
      clock,
      report: new SpoolReport(context, state.path),
      maxObjectBytes: format.object.max_bytes,
      maxObjectAgeMs: format.object.max_age,
      maxBytes: format.spool.max_bytes,
      format: typeOf(format) + endingOf(format),
      send: (object, signal) => store.send(object, signal),
    })
    this.spool = this.#spool = spool
    this.partitionOf = (batch, i) => names.prefixOf(batch, i)
    this.isOnePartition = batch => names.isOnePrefix(batch)
    this.#format = format
    this.#store = store
    this.#context = context
    showStored(
      metrics,
      'spool',
      () => spool.bytes,
      format.spool.max_bytes,
      () => spool.held.events,
    )
    const repeated = 'Events that were read again after a kill although an object already contained them.'
    this.#repeated = metrics.counter('sluice_spool_repeated_events_total', repeated)
    const objects = 'Objects in the spool: open ones grow, closed ones are being sent or wait to be sent.'
    for (const state of ['open', 'closed'] as const)
      metrics.gauge('sluice_spool_objects', objects, () => spool.objects[state], { state })
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#spool.recover().catch(cause => {
      const message = `cannot read the spool: ${errorText(cause)}`
      throw new DeliveryError(message, { failure: 'retry', reason: 'spool_read', cause })
    })
    await this.#store.open(signal)
  }

  async write(all: readonly EventBatch[], signal: AbortSignal, partition = ''): Promise<Receipt> {
    const request = this.#spool.knows ? this.#unknown(all) : all
    const repeated = { events: 0, bytes: 0 }
    for (const { length, bytes } of all) add(repeated, length, bytes)
    for (const { length, bytes } of request) add(repeated, -length, -bytes)
    if (request.length > 0) await this.#append(request, signal, partition)
    this.#repeated.value += repeated.events
    return { repeated }
  }

  async #append(request: readonly EventBatch[], signal: AbortSignal, partition: string): Promise<void> {
    const { encoding, compression } = this.#format
    const ids = encodeIds(request, this.#context.clock.wall())
    const encoded = encodeAlone(encoding, request)
    const last = encoded.parts.at(-1)
    // Ends the last line. Otherwise the next write would continue it.
    const isOpen = encoding === 'raw' && last !== undefined && last.at(-1) !== LF
    const parts = isOpen ? [...encoded.parts, NEWLINE] : encoded.parts
    const content = compression === 'none' ? parts : [await compress(Buffer.concat(parts), compression)]
    const record = framed(ids, content)
    // If the signal aborts after this check, the write continues, and the written events count as delivered.
    signal.throwIfAborted()
    const amount = { events: 0, bytes: 0 }
    for (const { length, bytes } of request) add(amount, length, bytes)
    const openedAt = this.#context.clock.wall()
    const factsOf = (id: string) => ({
      key: objectKey(partition, this.#format, openedAt, id),
      partition,
      format: typeOf(this.#format) + endingOf(this.#format),
      contentType: typeOf(this.#format),
      openedAt,
    })
    await this.#spool.append(partition, factsOf, record, amount)
    encoded.release?.()
  }

  /** Returns the events of a request that are not yet in an object. */
  #unknown(request: readonly EventBatch[]): EventBatch[] {
    return request.flatMap(batch => {
      const rest = batch.snapshot()
      rest.retain(i => !this.#spool.isKnown(batch, i))
      return rest.length > 0 ? [rest] : []
    })
  }

  changed(): Promise<boolean> {
    return this.#store.changed?.() ?? Promise.resolve(false)
  }

  handOver(): HandoverState | undefined {
    return this.#store.handOver?.()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    await this.#spool.close()
    await this.#store.stop(deadline)
  }
}
