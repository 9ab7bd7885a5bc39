import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { objectEnd, scanObject, type WantedNames } from '../../lib/formats/json-scan.js'
import type { ByteSink } from '../../lib/formats/json-string.js'
import { joinLines } from '../../lib/formats/json-text.js'
import { MemberPlaces, NAME } from '../../lib/formats/member-places.js'
import { exactJson, parseExact } from '../../lib/formats/normal-json.js'
import { theKernel } from '../../lib/kernel/kernel.js'
import type { Lines } from '../../lib/kernel/line-memory.js'
import { CONTINUES, LINE_END, PIECE } from '../../lib/lines/line-splitter.js'
import { BYTE_ORDER_MARK, behindMark, Codec, type CodecDefinition, defineCodec, NEWLINE, NO_OPTIONS } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { DECODED, INVALID, MODIFIED, SCANNED } from '../event/flags.js'

/** Inputs with fewer bytes are scanned in JavaScript, because each call of the kernel costs about 1 µs. */
const LEAST_FOR_KERNEL = 1024
/** Errors in longer texts are not located, because this would read the text again. */
const LONGEST_EXPLAINED = 64 * 1024
const SCAN = { skipped: PIECE | CONTINUES, ended: LINE_END, scanned: SCANNED, decoded: DECODED }

export class JsonCodec extends Codec {
  readonly #name = new FieldName()
  readonly #places = new MemberPlaces()

  constructor(definition: CodecDefinition = json, options: Readonly<Record<string, unknown>> = {}) {
    super(definition, options)
  }

  override get eventFields(): undefined {
    return undefined
  }

  scan(b: Buffer, start: number, end: number, wanted: WantedNames, out: Int32Array, at: number): boolean {
    return scanObject(b, behindMark(b, start, end), end, wanted, out, at)
  }

  override read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    if (end === b.length || b[end]! >= 0x20) {
      // The scan needs a control character after the text.
      const copy = Buffer.allocUnsafe(end - start + 1)
      b.copy(copy, 0, start, end)
      copy[end - start] = 0
      return this.read(copy, 0, end - start, to)
    }
    const places = this.#places
    if (!places.read(b, behindMark(b, start, end), end)) return false
    const { count, nameStarts, nameEnds, valueStarts, valueEnds, escapes } = places
    for (let n = 0; n < count; n++) {
      if (escapes[n]! & NAME) {
        const decoded = Buffer.from(JSON.parse(b.toString('utf8', nameStarts[n]! - 1, nameEnds[n]! + 1)) as string)
        this.#name.at(decoded, 0, decoded.length)
      } else this.#name.at(b, nameStarts[n]!, nameEnds[n]!)
      to.json(this.#name, b, valueStarts[n]!, valueEnds[n]!)
    }
    return true
  }

  override problem(b: Buffer, start: number, end: number): string | undefined {
    if (end - start > LONGEST_EXPLAINED) return undefined
    try {
      const value: unknown = JSON.parse(b.toString('utf8', start, end))
      return `it is ${Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`}`
    } catch (error) {
      const { message } = error as Error
      const [, position] = /at position (\d+)/.exec(message) ?? []
      if (position !== undefined) return `it is not JSON at character ${Number(position) + 1}`
      return message.includes('end of') ? 'it ends too soon' : undefined
    }
  }

  override scanLines(lines: Lines, wanted: WantedNames, out: Int32Array): number | undefined {
    const { length, starts, ends } = lines
    if (ends[length - 1]! - starts[0]! < LEAST_FOR_KERNEL) return undefined
    return theKernel()?.json.scan(lines, wanted, out, SCAN)
  }

  fields(b: Buffer, start: number, end: number, _receivedAt?: number, isExact = false): Fields {
    return (isExact ? parseExact : JSON.parse)(b.toString('utf8', behindMark(b, start, end), end)) as Fields
  }

  override encode(fields: Fields): string {
    return exactJson(fields)
  }

  override flatten(chunk: Buffer, start: number, end: number): void {
    const from = behindMark(chunk, start, end)
    if (objectEnd(chunk, from, end) === end) joinLines(chunk, from, end)
  }

  override write(batch: EventBatch, to: ByteSink): void {
    batch.origin.codec.writeJson(batch, to)
  }

  override writeJson(batch: EventBatch, to: ByteSink): void {
    const { chunk, starts, ends, flags, length, texts } = batch
    for (let i = 0; i < length; ) {
      if (texts?.has(i)) {
        i = texts.addLines(i, length, to)
        continue
      }
      if (!isUnchanged(batch.look(i))) {
        this.writeEvent(batch, i++, to)
        to.add(NEWLINE, 0, 1)
        continue
      }
      const first = i
      const start = behindMark(chunk, starts[i]!, ends[i]!)
      let end = starts[i]!
      let terminated = true
      // Adjacent events that end with plain LF form a run. Another line end or a byte order mark ends the run.
      while (terminated && i < length && starts[i] === end && isUnchanged(batch.look(i))) {
        if (chunk[end] === BYTE_ORDER_MARK && i > first) break
        terminated = (flags[i]! & LINE_END) === 1
        end = terminated ? ends[i]! + 1 : ends[i]!
        i++
      }
      to.add(chunk, start, end)
      if (!terminated) to.add(NEWLINE, 0, 1)
    }
  }
}

/** Whether the line of an event is the event's JSON. */
function isUnchanged(flags: number): boolean {
  return (flags & (DECODED | MODIFIED | INVALID)) === DECODED
}

export const json = defineCodec({
  name: 'json',
  summary: 'Each line is a JSON object, and that object is the event.',
  notes: 'No field is added to the event. Lines with other JSON values are kept as text.',
  options: NO_OPTIONS,
  form: 'object',
  expects: 'a JSON object',
  undecodedHelp: 'Lines that are not JSON objects. They are kept as text.',
  joinsLines: false,
  contentType: 'application/x-ndjson',
  examples: [
    {
      title: 'An object with an object in it',
      yaml: '',
      line: '{"app":"shop","took_ms":12,"user":{"id":7}}',
      event: { app: 'shop', took_ms: 12, user: { id: 7 } },
    },
  ],
  create: () => new JsonCodec(),
})

/** For events that are always JSON objects, such as journal entries. */
export const JSON_OBJECTS: Codec = json.create({} as never)
