import { convertText, type FieldType, notOfType } from '../../../core/field-types.js'
import type { FieldName } from '../../../lib/formats/field-sink.js'
import { slotOf, WantedNames } from '../../../lib/formats/json-scan.js'
import { FieldMembers } from '../../../lib/formats/members.js'
import { parseExact } from '../../../lib/formats/normal-json.js'

export class TypedMembers extends FieldMembers {
  /** Why a value could not be converted. Undefined if all values were converted. */
  problem: string | undefined
  /** When the event was received, in milliseconds since the epoch. Times without a year get the year of this time. */
  receivedAt = 0
  readonly #names = new WantedNames()
  readonly #types: FieldType[] = []

  constructor(types: Readonly<Record<string, FieldType>>) {
    super()
    for (const [name, type] of Object.entries(types)) this.#types[this.#names.slot(name)] = type
  }

  override clear(): void {
    super.clear()
    this.problem = undefined
  }

  override text(name: FieldName, b: Buffer, start: number, end: number): void {
    const type = this.#typeOf(name)
    if (type === undefined || type === 'string') super.text(name, b, start, end)
    else this.#convert(name, type, b.toString('utf8', start, end))
  }

  override string(name: FieldName, b: Buffer, start: number, end: number, hasEscapes: boolean): void {
    const type = this.#typeOf(name)
    if (type === undefined || type === 'string') super.string(name, b, start, end, hasEscapes)
    else this.#convert(name, type, JSON.parse(`"${b.toString('utf8', start, end)}"`))
  }

  override json(name: FieldName, b: Buffer, start: number, end: number): void {
    const type = this.#typeOf(name)
    if (type === undefined) super.json(name, b, start, end)
    else this.#convert(name, type, parseExact(b.toString('utf8', start, end)))
  }

  override value(name: FieldName, value: unknown): void {
    const type = this.#typeOf(name)
    if (type === undefined || value === undefined) super.value(name, value)
    else this.#convert(name, type, value)
  }

  #typeOf(name: FieldName): FieldType | undefined {
    return this.#types[slotOf(name.bytes, name.start, name.end, this.#names)]
  }

  #convert(name: FieldName, type: FieldType, value: unknown): void {
    const isPlain = ['string', 'number', 'bigint', 'boolean'].includes(typeof value)
    const converted = isPlain ? convertText(type, String(value), this.receivedAt) : undefined
    if (converted === undefined) {
      this.problem ??= notOfType(`.${name}`, type, value)
      return
    }
    if (typeof converted !== 'bigint') {
      super.value(name, converted)
      return
    }
    const digits = Buffer.from(String(converted))
    super.json(name, digits, 0, digits.length)
  }
}
