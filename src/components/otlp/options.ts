import { z } from 'zod'
import type { FieldPath } from '../../core/event/field-path.js'
import { fieldPath, fieldPaths } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { type Template, template } from '../../core/template.js'
import { baseUrl, checkHeaders, clientOptions } from '../../net/http/client/options.js'

export const LOGS_PATH = '/v1/logs'

const RESOURCE = { 'service.name': '${.app:-unknown_service}', 'host.name': '${.host}' }
export const FIELDS = {
  body: ['.message', '.msg', '.body'],
  severity: ['.severity', '.level', '.log.level', '."log.level"'],
  trace_id: ['.trace_id', '.traceId', '.trace.id', '."trace.id"'],
  span_id: ['.span_id', '.spanId', '.span.id', '."span.id"'],
}

const { headers, auth, validate, compression, url: _, ...rest } = clientOptions
export const otlpOptions = z
  .strictObject({
    url: baseUrl(LOGS_PATH).describe(
      `The address of the receiver, such as http://127.0.0.1:4318. Events are sent to ${LOGS_PATH} below it.`,
    ),
    encoding: z
      .enum(['protobuf', 'json'])
      .prefault('protobuf')
      .describe('Format of the body. Some receivers accept only one of the two.'),
    resource: z
      .union([fieldPath(), z.record(reaches('nothing', z.string().min(1).max(256)), template())])
      .prefault(RESOURCE)
      .describe(
        'Resource attributes, which describe where the event comes from. Values may contain fields; empty values are omitted. `.resource`: events of the source `otlp` become the records that they were.',
      ),
    scope: template()
      .prefault('${.logger}')
      .describe('Name of the instrumentation scope (the logger). Empty: the event has no scope.'),
    timestamp: fieldPath()
      .prefault('.timestamp')
      .describe(
        'Field with the time of the event. Events without it have only the observed time, which is the time when they were read.',
      ),
    body: fieldPaths()
      .prefault(FIELDS.body)
      .describe(
        'Fields that can become the body; the first one with a value is used. Without such a field, the body contains all fields.',
      ),
    severity: fieldPaths()
      .prefault(FIELDS.severity)
      .describe(
        'Fields that can hold the severity; the first one with a value is used. The value is a word such as `warn`, a syslog number (0 to 7) or a number from 10 (trace) to 60 (fatal).',
      ),
    trace_id: fieldPaths().prefault(FIELDS.trace_id).describe('Field with the trace id, as 32 hexadecimal digits.'),
    span_id: fieldPaths().prefault(FIELDS.span_id).describe('Field with the span id, as 16 hexadecimal digits.'),
    record_uid: z
      .boolean()
      .prefault(false)
      .describe(
        'Adds the attribute `log.record.uid`. It stays the same when the event is sent again, which lets receivers remove duplicates.',
      ),
    compression: compression
      .prefault('gzip')
      .describe(
        'Compression of the body. zstd requires a Node.js version that supports it, and a receiver that accepts it.',
      ),
    headers,
    auth,
    validate,
    ...rest,
  })
  .superRefine(checkHeaders)

/** The field with the resource of relayed records; undefined: the resource is made of templates. */
export const relayedField = ({ resource }: Pick<OtlpOptions, 'resource'>): FieldPath | undefined =>
  Array.isArray((resource as FieldPath).segments) ? (resource as FieldPath) : undefined

/** The names and templates of the resource. */
export const resourceTemplates = (options: Pick<OtlpOptions, 'resource'>): Readonly<Record<string, Template>> =>
  relayedField(options) ? {} : (options.resource as Readonly<Record<string, Template>>)

export type OtlpOptions = z.output<typeof otlpOptions>
