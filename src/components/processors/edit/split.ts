import { z } from 'zod'
import { ARRAY } from '../../../core/event/field-reader.js'
import { reaches } from '../../../core/options/reach.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { byField, changeText, changeValue, defineStep, Refusal } from './step.js'

const MOST_ITEMS = 10_000
const separator = () => reaches('nothing', z.string().max(1000))

export const split = defineStep({
  name: 'split',
  schema: byField(separator().refine(text => text !== '', { error: 'must not be empty' })).describe(
    `Divides texts into arrays of texts, at a separator: \`{ .tags: ',' }\`. A text of more than ${MOST_ITEMS} parts is handled as set by \`on_error\`.`,
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeText(path, text => {
        const items = text.split(by, MOST_ITEMS + 1)
        return items.length > MOST_ITEMS ? new Refusal(`${path.text} has more than ${MOST_ITEMS} parts`) : items
      }),
    ),
})

export const join = defineStep({
  name: 'join',
  schema: byField(separator()).describe(
    "Joins the items of arrays to texts, with a separator: `{ .tags: ', ' }`. An item that is no text is written as JSON.",
  ),
  operations: given =>
    given.map(([path, by]) =>
      changeValue(path, ({ reader, editor, field }) => {
        if (reader.kind !== ARRAY) return `${path.text} is no array`
        const items = reader.value() as readonly unknown[]
        editor.set(field, items.map(item => (typeof item === 'string' ? item : jsonText(item))).join(by))
        return undefined
      }),
    ),
})
