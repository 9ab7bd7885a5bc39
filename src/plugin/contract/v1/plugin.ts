import type { z } from 'zod'
import { type Codec, type CodecDefinition, defineCodec as codec } from '../../../core/codec.js'
import { JSON_OBJECTS } from '../../../core/codecs/json.js'
import {
  type CONTRACT,
  type Definition,
  defineDestination as destination,
  type Kind,
  type Promises,
  defineProcessor as processor,
  defineSource as source,
} from '../../../core/component.js'
import type { Ack } from '../../../core/event/ack.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Fields } from '../../../core/event/event-fields.js'
import type { Origin } from '../../../core/event/origin.js'
import { lineBatch, madeLine } from '../../../engine/flow/made-batch.js'
import { defineHttpDestination as httpDestination } from '../../../net/http/client/destination.js'
import type { ClientOptions } from '../../../net/http/client/options.js'

/**
 * The contract of plugins, which the built-in components use too. docs/plugins.md shows each kind of plugin. A plugin
 * names the version of the contract for which it was written.
 *
 * This folder is deep on purpose. In declarations, the compiler names a type by the shortest path that exports the
 * type. This path is longer than the others, so that declarations of other files do not name it.
 */

type ForPlugins<D> = Omit<D, 'kind' | 'plugin'> & { readonly contract: typeof CONTRACT }
type Of<K extends Kind, S extends z.ZodObject> = ForPlugins<Definition<K, S>>

/** Declares a processor. A processor decides about events, and may change, replace or emit events. */
export const defineProcessor = <S extends z.ZodObject>(definition: Of<'processor', S>) => processor<S>(definition)

/** Declares a source. Events come from it. */
export const defineSource = <S extends z.ZodObject>(definition: Of<'source', S>) => source<S>(definition)

/** Declares a destination, which makes single attempts to send. The engine adds retries, batches and buffers. */
export const defineDestination = <S extends z.ZodObject>(definition: Of<'destination', S>) => destination<S>(definition)

/** Declares a destination over HTTP by its request format. `options` must include all of `clientOptions`. */
export const defineHttpDestination = <S extends z.ZodObject & z.ZodType<ClientOptions>>(
  definition: ForPlugins<Omit<Parameters<typeof httpDestination<S>>[0], 'promises'>> & { readonly promises?: Promises },
) => httpDestination<S>(definition as never)

/** Declares a codec. It converts lines to events and, if it can, events to lines. */
export const defineCodec = <S extends z.ZodObject>(
  definition: ForPlugins<Omit<CodecDefinition, 'options' | 'create'>> & {
    readonly options: S
    create(options: z.output<S>): Codec
  },
) => codec<S>(definition)

/**
 * Creates a batch of at least one new event for a source. `origin` comes from `context.origin(JSON_OBJECTS)`.
 * `receivedAt` is wall clock in milliseconds. Throws if an event is not an object or cannot be written as JSON.
 */
export function batchOfEvents(events: readonly Fields[], origin: Origin, receivedAt: number, ack: Ack): EventBatch {
  return lineBatch(Buffer.from(events.map(madeLine).join('')), origin, receivedAt, ack)
}

export { z } from 'zod'
export type {
  BatchScript,
  Route,
  Script,
  ScriptContext,
  ScriptResult,
} from '../../../components/processors/script/types.js'
export { behindMark, Codec, type CodecExample, type Form, NO_OPTIONS, putSlot } from '../../../core/codec.js'
export {
  type Encoded,
  type Encoding,
  encodeAlone,
  encodeLines,
  eventText,
  RawEncoder,
} from '../../../core/codecs/encode.js'
export { FieldsCodec } from '../../../core/codecs/fields-codec.js'
export {
  column,
  EVENT,
  EVENT_ESCAPED,
  EVENT_MEMBERS,
  isoColumn,
  type Layout,
  type LayoutPart,
  nanosColumn,
  STABLE_ID,
} from '../../../core/codecs/layout.js'
export { codecOption, decodeOption, encodingOption, maxLineBytesOption } from '../../../core/codecs/options.js'
export { RecordCodec } from '../../../core/codecs/record-codec.js'
export type {
  Checkpoints,
  ComponentContext,
  ComponentMetrics,
  Destination,
  DestinationContext,
  EncodedRequest,
  HandoverState,
  Output,
  Processor,
  ProcessorContext,
  Receipt,
  Source,
  SourceContext,
  StateFolder,
} from '../../../core/component.js'
export { CONTRACT, REPLACED } from '../../../core/component.js'
export { compileCondition, condition, type EventTest, pathsOf } from '../../../core/condition/condition.js'
export { DeliveryError, errorText, type Failure } from '../../../core/errors.js'
export type { Ack, AckStatus, Share } from '../../../core/event/ack.js'
export { EventBatch } from '../../../core/event/batch.js'
export type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
export { type EventFields, type Fields, fieldsOfLines, type UsedField } from '../../../core/event/event-fields.js'
export { EventTime } from '../../../core/event/event-time.js'
export { type FieldPath, parseFieldPath } from '../../../core/event/field-path.js'
export {
  ARRAY_VALUE as ARRAY,
  BOOLEAN,
  FieldReader,
  LateFieldReader,
  MISSING,
  NULL_VALUE as NULL,
  NUMBER,
  OBJECT_VALUE,
  parsedNumber as numberOf,
  STRING_VALUE as STRING,
  type ValueKind,
} from '../../../core/event/field-reader.js'
export type { Origin } from '../../../core/event/origin.js'
export {
  type Example,
  type Explain,
  type Finding,
  type FindingsOf,
  shownValue,
  written,
} from '../../../core/explain.js'
export { checkSplit, multilineOption, PIECES, Splitting } from '../../../core/options/multiline-options.js'
export {
  byteSize,
  duration,
  fieldPath,
  fieldPaths,
  listenAddress,
  refuse,
  refuseAt,
  regex,
  Secret,
  secret,
} from '../../../core/options/options.js'
export { filePath, openWithin, reaches } from '../../../core/options/reach.js'
export {
  type BatchScope,
  CONSUMED,
  DISCARDED,
  discard,
  type EmitReason,
  type Emitted,
  FAILED,
  LATER,
  MAIN,
  output,
  type Plan,
} from '../../../core/processor.js'
export { type Template, template } from '../../../core/template.js'
export { LowWaterMark } from '../../../engine/flow/low-water-mark.js'
export { FieldName, type FieldSink } from '../../../lib/formats/field-sink.js'
export type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
export type { WantedNames } from '../../../lib/formats/json-scan.js'
export { type Framing, FramingError, type RecordScanner } from '../../../lib/lines/framed-splitter.js'
export { type Frame, LineSplitter } from '../../../lib/lines/line-splitter.js'
export { Pattern } from '../../../lib/pattern.js'
export { clientOptions } from '../../../net/http/client/options.js'
export type { RequestFormat } from '../../../net/http/client/request-format.js'
export { JSON_OBJECTS }
