import { z } from 'zod'
import { CR, LF, SPACE } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { exactJson } from '../../lib/formats/normal-json.js'
import { Codec, defineCodec } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { type FieldPath, parseFieldPath, valueAt } from '../event/field-path.js'
import { LateFieldReader, MISSING, NULL_VALUE } from '../event/field-reader.js'
import { INVALID, MODIFIED } from '../event/flags.js'
import { fieldPath } from '../options/options.js'
import { appendValue } from '../template.js'

/** Lines are passed on in portions of at least this many bytes. */
const AT_ONCE = 8 * 1024

/** Writes one field of each event. */
class FieldText extends Codec {
  readonly #path: FieldPath
  readonly #field: LateFieldReader
  readonly #out = new GrowingBytes()

  constructor(path: FieldPath) {
    super(fieldText, { field: path.text })
    this.#path = path
    this.#field = new LateFieldReader(path)
  }

  override get writtenField(): FieldPath {
    return this.#path
  }

  scan(): boolean {
    return false
  }

  fields(): Fields {
    return {}
  }

  override encode(fields: Fields): string {
    const value = valueAt(fields, this.#path.segments) ?? fields
    return typeof value === 'string' ? value : exactJson(value)
  }

  /** The text may have line ends. */
  override encodeEvent(batch: EventBatch, i: number): string {
    this.#out.clear()
    this.#add(batch, i)
    return this.#out.bytes.toString('utf8', 0, this.#out.length)
  }

  override write(batch: EventBatch, to: ByteSink): void {
    const out = this.#out
    out.clear()
    for (let i = 0; i < batch.length; i++) {
      const start = out.length
      this.#add(batch, i)
      joinLines(out, start)
      out.addByte(LF)
      if (out.length >= AT_ONCE) out.giveTo(to)
    }
    if (out.length > 0) out.giveTo(to)
  }

  #add(batch: EventBatch, i: number): void {
    const { codec } = batch.origin
    const isLine = codec.form === 'message' && (batch.look(i) & (MODIFIED | INVALID)) === 0
    if (isLine && this.#path.text === '.message') {
      this.#out.add(batch.chunk, batch.starts[i]!, batch.ends[i]!)
      return
    }
    const kind = this.#field.load(batch, i)
    if (kind !== MISSING && kind !== NULL_VALUE) appendValue(this.#field, this.#out)
    else {
      codec.writeEvent(batch, i, this.#out)
      this.onLeftOut?.(this.#path.text)
    }
  }
}

/** Replaces the line ends of the text from `start` on by spaces. */
function joinLines(out: GrowingBytes, start: number): void {
  const { bytes, length } = out
  let to = start
  for (let p = start; p < length; p++) {
    const byte = bytes[p]!
    if (byte === CR && p + 1 < length && bytes[p + 1] === LF) continue
    bytes[to++] = byte === LF || byte === CR ? SPACE : byte
  }
  out.length = to
}

export const fieldText = defineCodec({
  name: 'text',
  summary: 'Each line is the text of one field.',
  notes:
    'As an encoding: each line is the text of `field`, as Vector writes it with the codec `text`. Objects, lists, numbers and booleans are written as JSON. In a file or a request of lines, a line end in the text becomes a space; where events are separate, as in Loki and Kafka, it stays. ' +
    'If the field is missing or null, the whole event is written as JSON, so nothing is lost. These events are counted in `sluice_text_without_field_events_total` and logged.',
  options: z.strictObject({
    field: fieldPath()
      .transform(({ text }) => text)
      .prefault('.message')
      .describe('The field to write.'),
  }),
  form: 'message',
  expects: 'text',
  undecodedHelp: 'Always 0: it only encodes.',
  joinsLines: true,
  contentType: 'text/plain; charset=utf-8',
  leavesOut: {
    metric: 'sluice_text_without_field_events_total',
    help: 'Events without the field that the encoding text writes. They are written as JSON. Each attempt to write an event counts.',
    code: 'SLUICE_FIELD_MISSING',
    log: 'wrote a whole event as JSON, because it lacks the field that the encoding writes; set another "field" in "encoding"',
  },
  examples: [
    {
      title: 'Only the message',
      yaml: 'field: .message\n',
      line: 'server started',
      event: { message: 'server started' },
    },
  ],
  create: ({ field }) => new FieldText(parseFieldPath(field)),
})
