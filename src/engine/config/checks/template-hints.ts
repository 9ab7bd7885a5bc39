import type { z } from 'zod'
import { withTime } from '../../../core/dated.js'
import { pathMeant } from '../../../core/event/field-path.js'
import { parseTemplate, TEMPLATE, type Template, TemplateError } from '../../../core/template.js'
import type { Draft } from '../component-config.js'
import { placesIn, scalarsAt } from '../path-hints.js'
import { SECTIONS } from '../schema.js'
import { placeOf, type ScalarNode } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

/** Warnings about texts with fields: placeholders of other programs, and events that choose where they go. */

/** Fields in the syntax of Vector, Logstash and Fluent Bit. */
const FIELD = /\{\{[^{}]*\}\}|%\{[^}]*\}|\$[A-Za-z_.][\w.]*(?:\[[^\]]*\])*/
/** The syntax of strftime, and dates of Logstash. Bytes in a URL, such as %d0, are not dates. */
const DATE = /%(?![\da-fA-F]{2})[-_0^#E]?[aAbBdeFHIjmMpsSTuUVwWyYZ](?![a-zA-Z])|%\{\+[^}]*\}/

/** Headers are not checked, because a warning would show a part of their text, which may be a key. */
const isChecked = ([option]: readonly string[]): boolean => option !== 'headers'

export function checkTemplates(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  const known = new Map<z.ZodObject, ReturnType<typeof placesIn>>()
  for (const { kind, id, definition, entry } of drafts.values()) {
    if (!definition) continue
    const { options, addresses = {} } = definition
    const places = known.get(options) ?? placesIn(options, ({ title, path }) => title === TEMPLATE && isChecked(path))
    known.set(options, places)
    const root = { node: entry.value, path: [SECTIONS[kind], id], key: undefined }
    for (const { node, path, key } of places.flatMap(place => scalarsAt(root, place))) {
      for (const text of problemsOf(node, addresses[String(path[2])]))
        warnings.add(placeOf({ node, key, nearest: node }), path, text)
    }
  }
}

function problemsOf(node: ScalarNode, address: 'dated' | 'plain' | undefined): string[] {
  const { parts } = parsed(String(node.value).replace(/\?.*/s, ''))
  const literal = parts.map(part => (typeof part === 'string' ? part : '\n')).join('')
  const field = FIELD.exec(literal)?.[0]
  const date = DATE.exec(address === 'dated' ? withTime(literal, '') : literal)?.[0]
  if (node.environment && (field || date)) return ['a template of a date or a field is not replaced']
  const [first] = parts
  return [
    ...(field === undefined || field === date ? [] : [`${field} is not replaced: ${fieldAdvice(field)}`]),
    ...(date === undefined ? [] : [`${date} is not replaced: ${DATE_ADVICE[address ?? 'plain']}`]),
    ...(address === undefined || first === undefined || typeof first === 'string'
      ? []
      : [
          `begins with a field, so whoever writes the events chooses the whole name. Begin with a text of your own, as in logs-\${${first.path.text}}`,
        ]),
  ]
}

function fieldAdvice(sign: string): string {
  const name = sign
    .replace(/^(?:\$|%\{|\{\{) *| *\}+$/g, '')
    .replace(/\[['"]?([^\]'"]*)['"]?\]/g, '.$1')
    .replace(/^\.+/, '')
  return `write \${${pathMeant(name) ?? '.app'}} for the value of a field`
}

const DATE_ADVICE = {
  dated: 'of dates, only %Y, %m, %d, %F, %H and %M are',
  plain: 'this option has no dates. Put the date into a field with a processor of type edit, and write ${.FIELD}',
}

function parsed(text: string): Template {
  try {
    return parseTemplate(text)
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error
    return { text, parts: [] }
  }
}
