import { z } from 'zod'
import { ARRAY, BOOLEAN, type FieldReader, NUMBER, OBJECT_VALUE, STRING } from '../../../core/event/field-reader.js'
import { convertText, type FieldType, notOfType, TYPES, TYPES_TEXT } from '../../../core/field-types.js'
import { byField, changeValue, defineStep } from './step.js'

const ZERO = 0x30
const MOST_DIGITS = 40

/** The kinds of values that are of a type already. An integer and a time are looked at. */
const KINDS: Readonly<Record<FieldType, number | undefined>> = {
  int: undefined,
  float: NUMBER,
  bool: BOOLEAN,
  string: STRING,
  duration: NUMBER,
  bytes: NUMBER,
  timestamp: undefined,
}

/** Whether a plain text is an integer as JSON writes it, without a sign. */
function isInteger({ plain, bytes, start, end }: FieldReader): boolean {
  if (!plain || start === end || end - start > MOST_DIGITS || (bytes[start] === ZERO && end - start > 1)) return false
  for (let p = start; p < end; p++) if (bytes[p]! < ZERO || bytes[p]! > ZERO + 9) return false
  return true
}

export const convert = defineStep({
  name: 'convert',
  schema: byField(z.enum(TYPES)).describe(
    `Converts fields to types, as in \`{ .status: int, .took: duration }\`: ${TYPES_TEXT}. An event with a value that is none of its type is handled as set by \`on_error\`; a missing field and null stay.`,
  ),
  operations: given =>
    given.map(([path, type]) =>
      changeValue(path, ({ reader, editor, field }) => {
        const { kind } = reader
        if (kind === KINDS[type]) return undefined
        if (type === 'int' && kind === STRING && isInteger(reader)) {
          editor.setJson(field, reader.bytes, reader.start, reader.end)
          return undefined
        }
        const isText = kind !== OBJECT_VALUE && kind !== ARRAY
        const text = isText || type === 'string' ? reader.text() : ''
        const value = convertText(type, text)
        if (value === undefined) return notOfType(path.text, type, reader.value())
        const json = typeof value === 'bigint' ? String(value) : undefined
        if (json === undefined) editor.set(field, value)
        else if (kind !== NUMBER || text !== json) editor.setJson(field, Buffer.from(json))
        return undefined
      }),
    ),
})
