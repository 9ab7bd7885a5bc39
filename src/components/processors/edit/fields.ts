import { z } from 'zod'
import { cannotBeSet, type FieldPath } from '../../../core/event/field-path.js'
import {
  ARRAY_VALUE,
  BOOLEAN,
  type FieldReader,
  MISSING,
  NUMBER,
  OBJECT_VALUE,
  STRING_VALUE,
} from '../../../core/event/field-reader.js'
import { convertText, type FieldType, notOfType, TYPES, TYPES_TEXT } from '../../../core/field-types.js'
import { fieldPath } from '../../../core/options/options.js'
import { byField, changeValue, defineStep, fieldList, type Operation } from './step.js'

function renameField(from: FieldPath, to: FieldPath): Operation {
  return {
    reads: [],
    writes: [from, to],
    needs: [from],
    compile({ editor }) {
      const [field, target] = [editor.field(from), editor.field(to)]
      return () => (editor.rename(field, target) || !editor.has(field) ? undefined : cannotBeSet(to))
    },
  }
}

const operations = (given: readonly (readonly [FieldPath, FieldPath])[]) =>
  given.map(([from, to]) => renameField(from, to))

export const rename = defineStep({
  name: 'rename',
  schema: byField(fieldPath()).describe(
    'Moves fields to other paths, where they replace existing values: `{ .msg: .message }`. A field renamed within its object keeps its position. Missing fields are ignored.',
  ),
  operations,
})

export const move = defineStep({
  name: 'move',
  schema: byField(fieldPath()).describe('Another name of `rename`, for fields that move to another object.'),
  operations,
})

function copyField(from: FieldPath, to: FieldPath): Operation {
  return {
    reads: [from],
    writes: [to],
    compile({ editor, field }) {
      const reader = field(from)
      const target = editor.field(to)
      return (batch, i) => {
        if (reader.load(batch, i) === MISSING) return undefined
        const { bytes, start, end } = reader
        const isText = reader.kind === STRING_VALUE && reader.plain
        const isSet = isText
          ? editor.setText(target, bytes, start, end)
          : bytes.length > 0
            ? editor.setJson(target, bytes, start, end)
            : editor.setJson(
                target,
                Buffer.from(reader.kind === STRING_VALUE ? JSON.stringify(reader.value()) : reader.json()),
              )
        return isSet ? undefined : cannotBeSet(to)
      }
    },
  }
}

export const copy = defineStep({
  name: 'copy',
  schema: byField(fieldPath()).describe(
    'Copies the values of fields to other paths: `{ .client.ip: .ip }`. Missing fields are ignored.',
  ),
  operations: given => given.map(([from, to]) => copyField(from, to)),
})

export const remove = defineStep({
  name: 'remove',
  schema: fieldList().describe('Removes fields. Missing fields are ignored.'),
  operations: given =>
    given.map(path => ({
      reads: [],
      writes: [path],
      compile({ editor }) {
        const field = editor.field(path)
        return () => {
          editor.remove(field)
          return undefined
        }
      },
    })),
})

const ZERO = 0x30
const MOST_DIGITS = 40

/** For each type, the kind of value that needs no conversion. Undefined if every value must be checked. */
const KINDS: Readonly<Record<FieldType, number | undefined>> = {
  int: undefined,
  float: NUMBER,
  bool: BOOLEAN,
  string: STRING_VALUE,
  duration: NUMBER,
  bytes: NUMBER,
  timestamp: undefined,
}

/** Whether a text is plain, and is an unsigned integer in the notation of JSON. */
function isInteger({ plain, bytes, start, end }: FieldReader): boolean {
  if (!plain || start === end || end - start > MOST_DIGITS || (bytes[start] === ZERO && end - start > 1)) return false
  for (let p = start; p < end; p++) if (bytes[p]! < ZERO || bytes[p]! > ZERO + 9) return false
  return true
}

export const convert = defineStep({
  name: 'convert',
  schema: byField(z.enum(TYPES)).describe(
    `Converts fields to types, as in \`{ .status: int, .took: duration }\`: ${TYPES_TEXT}. An event whose value cannot be converted is handled as set by \`on_error\`. Missing fields and null stay unchanged.`,
  ),
  operations: given =>
    given.map(([path, type]) =>
      changeValue(path, ({ reader, editor, field }) => {
        const { kind } = reader
        if (kind === KINDS[type]) return undefined
        if (type === 'int' && kind === STRING_VALUE && isInteger(reader)) {
          editor.setJson(field, reader.bytes, reader.start, reader.end)
          return undefined
        }
        const isText = kind !== OBJECT_VALUE && kind !== ARRAY_VALUE
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
