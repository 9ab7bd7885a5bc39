import { WantedNames } from '../../lib/formats/json-scan.js'
import type { EventBatch } from '../event/batch.js'
import type { FieldPath } from '../event/field-path.js'
import { ARRAY_VALUE, FieldReader, OBJECT_VALUE, STRING_VALUE, type ValueKind } from '../event/field-reader.js'
import { hasText } from './texts.js'

/**
 * The functions of conditions. Conditions read a function's result as if from a field. If a function does not support a
 * value's type, the result is missing.
 */

/** The left side of a comparison: a field, or functions applied to it. */
export interface Operand {
  readonly path: FieldPath
  /** Names, the outermost first. */
  readonly functions: readonly string[]
}

interface ConditionFunction {
  /** Description of the result, for the reference. */
  readonly text: string
  reader(path: FieldPath, inner: FieldReader): FieldReader
}

/** Maximum size of a text that is written to reused memory. */
const MOST_KEPT = 64 * 1024

class LengthReader extends FieldReader {
  readonly #inner: FieldReader

  constructor(path: FieldPath, inner: FieldReader) {
    super(path, new WantedNames())
    this.#inner = inner
  }

  override load(batch: EventBatch, i: number): ValueKind {
    const kind = this.#inner.load(batch, i)
    if (hasText(kind)) return this.setValue(charactersOf(this.#inner))
    if (kind !== ARRAY_VALUE && kind !== OBJECT_VALUE) return this.setValue(undefined)
    return this.setValue(Object.keys(this.#inner.value() as object).length)
  }
}

function charactersOf(reader: FieldReader): number {
  let count = 0
  if (reader.plain) {
    const { bytes, start, end } = reader
    for (let p = start; p < end; p++) if ((bytes[p]! & 0xc0) !== 0x80) count++
    return count
  }
  const text = reader.text()
  count = text.length
  for (let p = 1; p < text.length; p++) {
    if ((text.charCodeAt(p) & 0xfc00) === 0xdc00 && (text.charCodeAt(p - 1) & 0xfc00) === 0xd800) count--
  }
  return count
}

class CaseReader extends FieldReader {
  readonly #inner: FieldReader
  readonly #convert: (text: string) => string
  /** The first letter that the function replaces: `A` for `lower`, `a` for `upper`. */
  readonly #first: number
  #kept = Buffer.alloc(0)

  constructor(path: FieldPath, inner: FieldReader, convert: (text: string) => string, first: number) {
    super(path, new WantedNames())
    this.#inner = inner
    this.#convert = convert
    this.#first = first
  }

  override load(batch: EventBatch, i: number): ValueKind {
    const inner = this.#inner
    if (!hasText(inner.load(batch, i))) return this.setValue(undefined)
    const length = inner.end - inner.start
    if (!inner.plain || length > MOST_KEPT || !this.#write(inner.bytes, inner.start, length)) {
      return this.setValue(this.#convert(inner.text()))
    }
    this.bytes = this.#kept
    this.start = 0
    this.end = length
    this.plain = true
    this.kind = STRING_VALUE
    return STRING_VALUE
  }

  /** If the text is ASCII, writes it to `#kept` with its case replaced. Otherwise returns false. */
  #write(bytes: Uint8Array, start: number, length: number): boolean {
    if (this.#kept.length < length) this.#kept = Buffer.allocUnsafeSlow(Math.min(length * 2, MOST_KEPT))
    const kept = this.#kept
    const first = this.#first
    for (let k = 0; k < length; k++) {
      const byte = bytes[start + k]!
      if (byte >= 0x80) return false
      kept[k] = byte >= first && byte < first + 26 ? byte ^ 0x20 : byte
    }
    return true
  }
}

/** All functions by name, in the order of the reference. */
export const FUNCTIONS: ReadonlyMap<string, ConditionFunction> = new Map(
  Object.entries<ConditionFunction>({
    length: {
      text: 'number of characters of a text, items of an array or fields of an object',
      reader: (path, inner) => new LengthReader(path, inner),
    },
    lower: {
      text: 'a text in lower case',
      reader: (path, inner) => new CaseReader(path, inner, text => text.toLowerCase(), 0x41),
    },
    upper: {
      text: 'a text in upper case',
      reader: (path, inner) => new CaseReader(path, inner, text => text.toUpperCase(), 0x61),
    },
  }),
)

export function operandText({ path, functions }: Operand): string {
  return functions.reduceRight((inner, name) => `${name}(${inner})`, path.text)
}

/** Returns a text for the operand. Operands with equal texts have equal values in every event. */
export function operandKey({ path, functions }: Operand): string {
  return `${functions.join()}${JSON.stringify(path.segments)}`
}

export function operandReader({ path, functions }: Operand, field: (path: FieldPath) => FieldReader): FieldReader {
  return functions.reduceRight((inner, name) => FUNCTIONS.get(name)!.reader(path, inner), field(path))
}
