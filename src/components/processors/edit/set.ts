import { z } from 'zod'
import { cannotBeSet, type FieldPath } from '../../../core/event/field-path.js'
import { mostOf } from '../../../core/event/growth.js'
import { reaches } from '../../../core/options/reach.js'
import { compileTemplate, type Template, template, templatePaths } from '../../../core/template.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { type ApplyStep, byField, defineStep, type Operation, type Tools } from './step.js'

/** Maximum bytes of memory that a template keeps between events, because there may be a thousand templates. */
const MOST_KEPT = 64 * 1024

type Value = { readonly template: Template } | { readonly json: Buffer }

const literal = (value: unknown): Value => ({ json: Buffer.from(JSON.stringify(value)) })

const value = () =>
  z.union([
    template().transform((template): Value => {
      const [text = '', ...more] = template.parts
      return typeof text === 'string' && more.length === 0 ? literal(text) : { template }
    }),
    z
      .union([
        z.number(),
        z.boolean(),
        z.null(),
        reaches('nothing', z.array(z.unknown())),
        reaches('nothing', z.record(z.string(), z.unknown())),
      ])
      .transform(literal),
  ])

function setField(path: FieldPath, value: Value, onlyMissing: boolean): Operation {
  return {
    reads: 'template' in value ? templatePaths(value.template) : [],
    writes: [path],
    needs: [],
    compile(tools) {
      const { editor } = tools
      const field = editor.field(path)
      const set = 'template' in value ? textSetter(value.template, field, tools) : undefined
      const apply: ApplyStep = (batch, i) => {
        const isSet = set ? set(batch, i) : editor.setJson(field, (value as { json: Buffer }).json)
        return isSet ? undefined : cannotBeSet(path)
      }
      return onlyMissing ? (batch, i) => (editor.has(field) ? undefined : apply(batch, i)) : apply
    },
  }
}

function textSetter(template: Template, field: ReturnType<Tools['editor']['field']>, { editor, field: read }: Tools) {
  const compiled = compileTemplate(template, path => read(path))
  const made = new GrowingBytes()
  return (batch: Parameters<ApplyStep>[0], i: number): boolean => {
    // Stops at the maximum size of an event, because a longer event is refused anyway.
    compiled.append(batch, i, made, mostOf(batch.size(i)))
    const isSet = editor.setText(field, made.bytes, 0, made.length)
    if (made.length > MOST_KEPT) made.release()
    else made.clear()
    return isSet
  }
}

export const set = defineStep({
  name: 'set',
  schema: byField(value()).describe(
    'Sets fields to values of any type, or to text in which `${.path}` stands for the value of a field. Missing parent objects are created.',
  ),
  operations: given => given.map(([path, value]) => setField(path, value, false)),
})

export const setDefault = defineStep({
  name: 'default',
  schema: byField(value()).describe(
    'Sets fields as `set` does, if they are missing. A field that is null is not missing.',
  ),
  operations: given => given.map(([path, value]) => setField(path, value, true)),
})
