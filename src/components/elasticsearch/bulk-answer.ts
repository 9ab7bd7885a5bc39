import { z } from 'zod'
import type { EventBatch } from '../../core/event/batch.js'
import type { EventResult } from '../../net/http/client/answers/divided.js'
import { eventsIn } from '../../net/http/client/answers/read-answer.js'
import type { Refused } from '../../net/http/client/request-format.js'
import { NO_WRITE_INDEX } from './inspect.js'

/** An item has only one member. Its name is the action, and its value has this form. */
const item = z.object({
  status: z.int().min(200).max(599),
  error: z
    .object({
      type: z.string().optional(),
      reason: z.string().optional(),
      caused_by: z.object({ reason: z.string().optional() }).optional(),
    })
    .optional(),
  /** `used`: the document is not in the data stream, but in its failure store. */
  failure_store: z.string().optional(),
})
/** The server refuses a document in which an object has a name twice. */
const REPEATED = /Duplicate field '/
/** For this time after names were first made unique, a refused document may have been encoded before. */
const IN_FLIGHT_MS = 60_000

const KNOWN: readonly { readonly says: RegExp; readonly reason?: string; readonly advice: string }[] = [
  { says: /no write index is defined/, reason: 'no_write_index', advice: NO_WRITE_INDEX },
  {
    says: /field name cannot|object field starting or ending with|is a metadata field/,
    reason: 'field_name',
    advice:
      'Elasticsearch does not accept a field of this name: rename or remove the field with a processor of type edit',
  },
  {
    says: REPEATED,
    reason: 'repeated_name',
    advice: 'an object has a name twice: "sluice resend" sends the last value',
  },
  {
    says: /limit of (total fields|mapping depth)/i,
    reason: 'too_many_fields',
    advice:
      'an index can have only a limited number of different fields: remove fields before they are sent, or raise index.mapping.total_fields.limit',
  },
  {
    says: /immense term|max_bytes_length_exceeded/i,
    reason: 'too_long',
    advice: 'a keyword has at most 32,766 bytes: map the field as text, or set ignore_above',
  },
  {
    says: /pipeline with id/i,
    reason: 'pipeline',
    advice: 'create the ingest pipeline, or correct "pipeline"',
  },
  {
    says: /op_type of create|data stream/i,
    reason: 'data_stream',
    advice: 'a data stream accepts only new documents: set mode: data_stream',
  },
  {
    says: /^(mapper_parsing|document_parsing|strict_dynamic_mapping|illegal_argument)_exception/,
    reason: 'mapping',
    advice:
      'the mapping does not accept a field of this event: change the field before it is sent, or change the mapping',
  },
  {
    says: /^invalid_index_name_exception/,
    reason: 'index_name',
    advice: 'the name of an index must be lower case, without spaces and without \\/*?"<>|,#: correct "index"',
  },
  { says: /^index_not_found_exception/, reason: 'no_index', advice: 'create the index, or allow events to create it' },
  {
    says: /maximum (normal |frozen )?shards open/,
    reason: 'too_many_shards',
    advice: 'each index has shards: use fewer values in "index", or raise cluster.max_shards_per_node',
  },
  { says: /^index_closed_exception/, reason: 'index_closed', advice: 'open the index' },
  {
    says: /^cluster_block_exception.*(flood|read.only)/i,
    advice: 'the disks of the cluster are full: make room, and remove the block of the index',
  },
  { says: /^cluster_block_exception/, advice: 'the index is blocked: see "index.blocks" of GET INDEX/_settings' },
  { says: /^security_exception/, advice: 'the key needs the privileges create_doc and auto_configure for the index' },
  { says: /^es_rejected_execution|^rejected_execution/, advice: 'the cluster is overloaded' },
  { says: /^circuit_breaking_exception/, advice: 'the cluster has too little memory for the request' },
  { says: /^unavailable_shards_exception/, advice: 'a shard of the index is not available: see GET _cluster/health' },
]

/** The index name comes from fields, and the key cannot write to this index. So only this event is rejected. */
const FORBIDDEN = {
  reason: 'forbidden',
  advice: 'the name of the index comes from fields of the event, and the key may not write to this index',
  failure: 'reject',
} as const

const CREATED = 201

/** The result in an item such as `{"create":{"status":201}}`. */
const resultIn = (item: unknown) => (typeof item === 'object' && item !== null ? Object.values(item)[0] : undefined)

/** Whether the item is the usual report of a stored event. Skips parsing, which is slower than sending. */
export function isCreated(item: unknown): boolean {
  const { status, error, failure_store: store } = (resultIn(item) ?? {}) as Readonly<Record<string, unknown>>
  return status === CREATED && error === undefined && store === undefined
}

interface ItemOptions {
  readonly isNamedByEvents: boolean
  onFailureStore(): void
  /** Makes names unique from now on. Returns for how many milliseconds they have been. */
  makeUnique(): number
}

/** Reads an event's result from its item in a bulk response; undefined if the item has another form. */
export function readItem(value: unknown, index: number, options: ItemOptions): EventResult | undefined {
  const given = resultIn(value)
  if (isCreated(value)) return { index, status: CREATED }
  const { data: found } = item.safeParse(given)
  if (!found) return undefined
  const { status, error, failure_store: store } = found
  if (store === 'used') options.onFailureStore()
  // The id of an event stays the same when it is sent again, so this conflict means that the event is already stored.
  if (status === 409 && error?.type === 'version_conflict_engine_exception') return { index, status: 200 }
  if (status < 300) return { index, status }
  const { type = 'error', reason = '', caused_by: cause } = error ?? {}
  const said = [`${type}: ${reason}`, cause?.reason].filter(Boolean).join(': ')
  if (options.isNamedByEvents && type === 'security_exception' && status === 403)
    return { index, status, message: said, ...FORBIDDEN }
  if (REPEATED.test(said) && options.makeUnique() < IN_FLIGHT_MS)
    return { index, status, message: said, reason: 'repeated_name', failure: 'retry' }
  const known = KNOWN.find(({ says }) => says.test(said))
  // The block concerns this index. The events of other indices need not wait for an operator.
  const retries = options.isNamedByEvents && type === 'cluster_block_exception' && { failure: 'retry' as const }
  return { index, status, message: said, reason: known?.reason, advice: known?.advice, ...retries }
}

/**
 * Elasticsearch 8.18 to 9.2 rejects the whole request if a pipeline reads a document in which a name appears twice. In
 * this case, divides the request into two groups, which are sent separately.
 */
export function readBulkRefusal(
  status: number,
  text: string,
  request: readonly EventBatch[],
  makeUnique: ItemOptions['makeUnique'],
): Refused | undefined {
  const events = eventsIn(request)
  if (status !== 400 || !/parse_exception/.test(text)) return undefined
  const all = Array.from({ length: events }, (_, n) => n)
  if (REPEATED.test(text) && makeUnique() === 0)
    return { failure: 'retry', reason: 'repeated_name', rejected: [], again: all }
  return events === 1 ? undefined : { groups: all.map(n => (n < events / 2 ? 0 : 1)) }
}
