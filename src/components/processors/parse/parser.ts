import type { Codec } from '../../../core/codec.js'
import type { ComponentContext, Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import type { EventMerger } from '../../../core/event/event-merger.js'
import { cannotBeSet } from '../../../core/event/field-path.js'
import { type FieldReader, MISSING } from '../../../core/event/field-reader.js'
import type { LineMerger } from '../../../core/event/line-merger.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import { CLOSE_OBJECT, LF, OPEN_OBJECT } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addUnique, MemberName } from '../../../lib/formats/json-members.js'
import { FieldMembers } from '../../../lib/formats/members.js'
import { codecsToTry } from './codec-options.js'
import type { ParseOptions } from './options.js'
import { TypedMembers } from './typed-members.js'

/** Tries several codecs in turn to read a field. Merges the result of the first that succeeds into the event. */
export class Parser implements Processor {
  readonly #reader: FieldReader
  readonly #editor: EventEditor
  readonly #merger: EventMerger
  readonly #codecs: readonly Codec[]
  readonly #members: FieldMembers
  /** The same object as `#members` if members are converted, otherwise undefined. */
  readonly #typed: TypedMembers | undefined
  /** Merges most texts of `.message` faster. Undefined if the options do not allow this. */
  readonly #lines: LineMerger | undefined
  readonly #source: EditedField
  readonly #target: EditedField | undefined
  readonly #removes: boolean
  /** The name of the parsed field, if the field is at the top level and is removed. */
  readonly #without: MemberName | undefined
  readonly #field: string
  readonly #text = new GrowingBytes()
  readonly #object = new GrowingBytes()
  /** Whether the codec that was used last found a value instead of fields. */
  #isValue = false
  /** Why each codec cannot read the last text. */
  readonly #problems: string[] = []

  constructor({ field, target, types, remove_field, ...rest }: ParseOptions, context: ProcessorContext) {
    this.#reader = context.field(field)
    this.#editor = context.editor()
    this.#merger = this.#editor.merger()
    this.#source = this.#editor.field(field)
    this.#target = target && this.#editor.field(target)
    this.#codecs = codecsToTry(rest, context.reach)
    this.#typed = Object.keys(types).length > 0 ? new TypedMembers(types) : undefined
    this.#members = this.#typed ?? new FieldMembers()
    this.#removes = remove_field
    if (remove_field && field.segments.length === 1) this.#without = new MemberName(field.segments[0])
    this.#field = field.text
    const format = this.#codecs[0]!.lineFormat
    if (format && !target && !this.#typed && field.text === '.message') {
      this.#lines = this.#editor.lineMerger(format, !remove_field)
    }
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const merged = this.#lines?.merge(batch)
    for (let i = 0; i < batch.length; i++) {
      if (merged?.[i] === 1) continue
      const problem = this.#parse(batch, i)
      if (problem === undefined) continue
      to[i] = FAILED
      scope.because(i, problem)
    }
  }

  /** Returns why the event stays as it is, or undefined if the event was changed. */
  #parse(batch: EventBatch, i: number): string | undefined {
    const reader = this.#reader
    if (reader.load(batch, i) === MISSING) return `the event has no field ${this.#field}`
    let { bytes, start, end } = reader
    // A scan stops only at a control character, so the text must be followed by one.
    if (!(reader.plain && end < bytes.length && bytes[end]! < 0x20)) {
      const text = this.#text
      text.clear()
      if (reader.plain) text.add(bytes, start, end)
      else text.addText(reader.text())
      text.addByte(LF)
      bytes = text.bytes
      start = 0
      end = text.length - 1
    }
    if (!this.#read(bytes, start, end, batch.receivedAt)) return `${this.#field} is ${this.#problems.join(', and ')}`
    return this.#put(batch, i)
  }

  #read(bytes: Buffer, start: number, end: number, receivedAt: number): boolean {
    const members = this.#members
    this.#problems.length = 0
    if (this.#typed) this.#typed.receivedAt = receivedAt
    for (const codec of this.#codecs) {
      members.clear()
      if (codec.read(bytes, start, end, members, receivedAt) && this.#typed?.problem === undefined) {
        this.#isValue = codec.definition.readsValue === true
        return true
      }
      const { expects } = codec.definition
      const problem = this.#typed?.problem ?? codec.problem?.(bytes, start, end)
      this.#problems.push(problem === undefined ? `not ${expects}` : `not ${expects} (${problem})`)
    }
    return false
  }

  #put(batch: EventBatch, i: number): string | undefined {
    const editor = this.#editor
    const target = this.#target
    if (!target) {
      if (this.#removes && !this.#without) {
        editor.open(batch, i)
        editor.remove(this.#source)
        editor.close()
      }
      this.#merger.merge(batch, i, this.#members, this.#without)
      return undefined
    }
    editor.open(batch, i)
    if (this.#removes) editor.remove(this.#source)
    const { out, valueStarts, valueEnds } = this.#members
    const object = this.#isValue ? out : this.#writeObject()
    const [start, end] = this.#isValue ? [valueStarts[0], valueEnds[0]] : [0, object.length]
    if (!editor.setJson(target, object.bytes, start, end)) return cannotBeSet(target.path)
    editor.close()
    return undefined
  }

  #writeObject(): GrowingBytes {
    const { out, isUnclear } = this.#members
    const object = this.#object
    object.clear()
    object.addByte(OPEN_OBJECT)
    object.add(out.bytes, 0, out.length)
    object.addByte(CLOSE_OBJECT)
    if (!isUnclear) return object
    this.#text.clear()
    addUnique(this.#text, object.bytes, 0, object.length)
    return this.#text
  }
}

/** Reports whether each codec can read the text of the field and, if not, why. Stops after the first that can. */
export function explainParse({ field, types, ...rest }: ParseOptions, context: ComponentContext): FindingsOf {
  const reader = context.field(field)
  const codecs = codecsToTry(rest, context.reach)
  const typed = Object.keys(types).length > 0 ? new TypedMembers(types) : undefined
  const members = typed ?? new FieldMembers()
  return batch => {
    if (reader.load(batch, 0) === MISSING) return [{ text: `the event has no field ${field.text}`, holds: false }]
    const bytes = Buffer.from(`${reader.text()}\n`)
    const end = bytes.length - 1
    const findings: Finding[] = []
    if (typed) typed.receivedAt = batch.receivedAt
    for (const codec of codecs) {
      members.clear()
      const isRead = codec.read(bytes, 0, end, members, batch.receivedAt)
      const holds = isRead && typed?.problem === undefined
      const value = holds ? undefined : isRead ? typed?.problem : codec.problem?.(bytes, 0, end)
      const text = `codec ${codec.name}: ${field.text} is ${codec.definition.expects}`
      findings.push({ text, holds, ...(value !== undefined && { value }) })
      if (holds) break
    }
    return findings
  }
}
