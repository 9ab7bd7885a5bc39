import type { z } from 'zod'
import { GrowingBytes } from '../lib/formats/growing-bytes.js'
import { DeliveryError } from './errors.js'
import type { EventBatch } from './event/batch.js'
import type { FieldPath } from './event/field-path.js'
import type { FieldReader } from './event/field-reader.js'
import { compileTemplate, TEMPLATE, type Template } from './template.js'

/** Maximum size of a field value in a partition name. Longer values are rarely names. */
export const LONGEST_VALUE_BYTES = 256

/** A text that all events of a request to a destination share, such as a URL or a header. */
export interface RequestText {
  readonly option: string
  readonly template: Template
  /** Encodes a field's value for its place in the text. */
  encode?(value: string): string
  /** Returns why a text cannot be used; undefined if it can. */
  problem?(text: string): string | undefined
}

type PartReader = string | ((batch: EventBatch, i: number) => string)

interface PreparedText {
  readonly text: RequestText
  readonly parts: readonly PartReader[]
  /** The last text that passed the check. An equal text is not checked again. */
  usable?: string
}

/**
 * The texts of a destination that contain field values. Events with the same texts form a partition and share requests.
 */
export class RequestTexts {
  readonly #texts: readonly PreparedText[]
  readonly #value = new GrowingBytes()

  constructor(texts: readonly RequestText[], field: (path: FieldPath) => FieldReader) {
    this.#texts = texts.map(text => ({ text, parts: text.template.parts.map(part => this.#reader(part, field)) }))
  }

  /** Whether all events have the same texts. */
  get areConstant(): boolean {
    return this.#texts.every(({ parts }) => parts.every(part => typeof part === 'string'))
  }

  /** Returns the name of an event's partition. Throws a DeliveryError if a value is empty or too long. */
  partitionOf(batch: EventBatch, i: number): string {
    const [first] = this.#texts
    if (first && this.#texts.length === 1) return this.#textOf(first, batch, i)
    return nameOf(this.#texts.map(text => this.#textOf(text, batch, i)))
  }

  /** Returns the partition of an event without fields. Throws a DeliveryError if a field has no default. */
  partitionOfDefaults(): string {
    return nameOf(
      this.#texts.map(({ text: { template, encode = (value: string) => value } }) =>
        template.parts
          .map(part => {
            if (typeof part === 'string') return part
            if (part.fallback === '') throw refusal(`${part.path.text} has no default`)
            return encode(part.fallback)
          })
          .join(''),
      ),
    )
  }

  /**
   * Returns the texts of partition `name`, in the constructor's order. `name` is undefined if the texts are constant.
   */
  of(name: string | undefined): string[] {
    if (name === undefined) return this.#texts.map(({ parts }) => parts.join(''))
    return this.#texts.length === 1 ? [name] : (JSON.parse(name) as string[])
  }

  #reader(part: Template['parts'][number], field: (path: FieldPath) => FieldReader): PartReader {
    if (typeof part === 'string') return part
    const compiled = compileTemplate({ text: '', parts: [part] }, field)
    return (batch, i) => {
      this.#value.clear()
      compiled.append(batch, i, this.#value, LONGEST_VALUE_BYTES)
      const { bytes, length } = this.#value
      if (length === 0 || length > LONGEST_VALUE_BYTES) {
        this.#value.release()
        const why = length === 0 ? 'is missing or empty' : `is longer than ${LONGEST_VALUE_BYTES} bytes`
        throw refusal(`${part.path.text} ${why}`)
      }
      return bytes.toString('utf8', 0, length)
    }
  }

  #textOf(of: PreparedText, batch: EventBatch, i: number): string {
    const { option, encode = (value: string) => value, problem } = of.text
    let text = ''
    for (const part of of.parts) text += typeof part === 'string' ? part : encode(part(batch, i))
    if (text === of.usable) return of.usable
    const why = problem?.(text)
    if (why !== undefined) throw refusal(`${option} ${why}`)
    of.usable = text
    return text
  }
}

const nameOf = (texts: readonly string[]): string => (texts.length === 1 ? texts[0]! : JSON.stringify(texts))

function refusal(message: string): DeliveryError {
  return new DeliveryError(message, { failure: 'reject', reason: 'partition' })
}

/** Marks a text option as a template. The parsed value of the option is still the text as written. */
export const templateText = <S extends z.ZodType>(schema: S): S => schema.meta({ title: TEMPLATE }) as S
