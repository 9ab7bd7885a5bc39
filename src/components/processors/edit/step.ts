import { z } from 'zod'
import type { Condition } from '../../../core/condition/parse.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { type FieldPath, PathError, parseFieldPath } from '../../../core/event/field-path.js'
import { ARRAY_VALUE, type FieldReader, MISSING, NULL_VALUE, OBJECT_VALUE } from '../../../core/event/field-reader.js'
import { fieldPath } from '../../../core/options/options.js'
import type { Reach } from '../../../core/options/reach.js'

/** A new kind of step needs code in this folder, and a place in the list of `edit.ts`. */

export interface Tools {
  readonly editor: EventEditor
  field(path: FieldPath): FieldReader
  readonly reach: Reach | undefined
}

/** Changes event `i`, which is open in the editor. If this fails, returns the reason, otherwise undefined. */
export type ApplyStep = (batch: EventBatch, i: number) => string | undefined

/** One change of an event. A step has one or more changes, and each sees the changes before it. */
export interface Operation {
  /** The fields that the operation reads. Pending changes of these fields are written first. */
  readonly reads: readonly FieldPath[] | 'all'
  readonly writes: readonly FieldPath[]
  /** The fields without which the operation does nothing. Warnings name them. Default: `reads`. */
  readonly needs?: readonly FieldPath[]
  compile(tools: Tools): ApplyStep | Promise<ApplyStep>
}

/** A step of the configuration. Keeps the options as written, because the files that they name must be checked. */
export interface EditStep {
  readonly [given: string]: unknown
  readonly name: string
  readonly when: Condition | undefined
  readonly operations: readonly Operation[]
}

export interface StepKind {
  readonly name: string
  readonly schema: z.ZodType
  operations(given: unknown): readonly Operation[]
}

/** Erases the type of the options, which the schema parses. */
export function defineStep<S extends z.ZodType>(kind: {
  readonly name: string
  /** Must have a description. */
  readonly schema: S
  operations(given: z.output<S>): readonly Operation[]
}): StepKind {
  return kind as StepKind
}

const MOST_FIELDS = 1000

/** Schema of a mapping from field paths to values, in the order of the configuration. */
export function byField<V extends z.ZodType>(value: V) {
  return z.record(z.string(), value).transform((given, context): (readonly [FieldPath, z.output<V>])[] => {
    const entries: [FieldPath, z.output<V>][] = []
    for (const [text, value] of Object.entries(given)) {
      try {
        entries.push([parseFieldPath(text), value as z.output<V>])
      } catch (error) {
        if (!(error instanceof PathError)) throw error
        const message = `${error.message} (column ${error.column} of the path)`
        context.addIssue({ code: 'custom', message, path: [text], params: { constant: true } })
      }
    }
    if (entries.length === 0 || entries.length > MOST_FIELDS) {
      const message = `must have 1 to ${MOST_FIELDS} fields`
      if (context.issues.length === 0) context.addIssue({ code: 'custom', message, params: { constant: true } })
      return z.NEVER
    }
    return entries
  })
}

export const fieldList = () => z.array(fieldPath()).min(1).max(MOST_FIELDS)

/**
 * An operation that changes the text of a field. `change` returns the new value, or the same text. If `isDone` finds
 * that a text needs no change, the text is skipped before a string is created.
 */
export function changeText(
  path: FieldPath,
  change: (text: string) => unknown,
  isDone: (reader: FieldReader) => boolean = () => false,
): Operation {
  return changeValue(path, ({ reader, editor, field }) => {
    if (isDone(reader)) return undefined
    if (reader.kind === OBJECT_VALUE || reader.kind === ARRAY_VALUE) return notText(path, reader)
    const text = reader.text()
    const changed = change(text)
    if (changed instanceof StepRefusal) return changed.message
    if (changed !== text) editor.set(field, changed)
    return undefined
  })
}

/** Changes the value of a field. Does nothing if the field is missing or null. */
export function changeValue(
  path: FieldPath,
  apply: (parts: { reader: FieldReader; editor: EventEditor; field: EditedField }) => string | undefined,
): Operation {
  return {
    reads: [path],
    writes: [path],
    compile({ editor, field }) {
      const parts = { reader: field(path), editor, field: editor.field(path) }
      return (batch, i) => {
        const kind = parts.reader.load(batch, i)
        return kind === MISSING || kind === NULL_VALUE ? undefined : apply(parts)
      }
    },
  }
}

export class StepRefusal {
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

function notText({ text }: FieldPath, { kind }: FieldReader): string {
  return `${text} is an ${kind === ARRAY_VALUE ? 'array' : 'object'}, not a text`
}
