import { Codec } from '../../../core/codec.js'
import type { Kind } from '../../../core/component.js'
import type { EventFields, TimeSearch, UsedField } from '../../../core/event/event-fields.js'
import { type Draft, report } from '../component-config.js'
import { upstreamOf } from '../inputs.js'
import { SECTIONS } from '../schema.js'
import { locate, placeOf } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'
import type { Explainer } from './diagnostics.js'

/** Maximum number of sources that a warning lists. */
const SHOWN_SOURCES = 3

/** Warns if an option uses a field that none of the component's incoming events can have. */
export function checkFields(drafts: ReadonlyMap<string, Draft>, warnings: Problems, explainer: Explainer): void {
  const known: Known = new Map()
  for (const draft of drafts.values()) {
    const { definition, options } = draft.config ?? {}
    const used = [...(definition?.usesFields?.(options as never) ?? []), ...writtenFields(options ?? {})]
    if (used.length === 0) continue
    const fields = fieldsOf(upstreamOf(draft, drafts), known)
    if (!fields) continue
    for (const { option, path, without } of used) {
      const [name] = path.segments
      const located = locate(draft.entry.value, [option], draft.entry.key)
      const isHidden = located.nearest.kind === 'scalar' && located.nearest.environment !== undefined
      if (fields.some(({ names, others }) => names.includes(name) || others?.test(name))) continue
      const known = fields.flatMap(({ names }) => names.map(known => `.${known}`))
      const near = isHidden ? '' : explainer.suggestion(`.${name}`, known)
      const field = isHidden ? 'this field' : path.text
      const consequence = without === undefined ? '' : `, and ${without}`
      const sources = fields.slice(0, SHOWN_SOURCES).map(shownFields).join('; ')
      warnings.add(
        placeOf(located),
        [SECTIONS[draft.kind], draft.id, option],
        `no event that comes here can have ${field}${consequence}${near || '.'} ${sources}`,
      )
    }
  }
}

/** The fields that encodings in these options write alone. */
function writtenFields(options: object): UsedField[] {
  return Object.entries(options).flatMap(([option, value]) => {
    const path = value instanceof Codec ? value.writtenField : undefined
    return path ? [{ option, path, without: 'every event is written as JSON' }] : []
  })
}

/** The codecs without required options whose events may have any field. */
export const ANY_FIELD: readonly string[] = ['json', 'logfmt', 'key_value', 'gelf']

interface KnownFields extends EventFields {
  readonly id: string
  readonly kind: Kind
  readonly codec: Codec | undefined
}

/** The fields that each component declares. A cache, since many components may share an upstream component. */
type Known = Map<Draft['config'], EventFields | undefined>

/**
 * The fields that events of these components can have. Undefined if one of the components is invalid or may add any
 * field, or if no component is a source.
 */
function fieldsOf(upstream: readonly Draft[], known: Known): KnownFields[] | undefined {
  const all: KnownFields[] = []
  for (const { id, kind, config } of upstream) {
    if (!config) return undefined
    const { definition, options } = config
    if (kind === 'processor' && !definition.fields) continue
    if (!known.has(config)) known.set(config, definition.fields?.(options as never))
    const fields = known.get(config)
    if (!fields) return undefined
    all.push({ ...fields, id, kind, codec: (options as { decode?: Codec }).decode })
  }
  return all.some(({ kind }) => kind === 'source') ? all : undefined
}

function shownFields({ id, kind, names, others, codec }: KnownFields): string {
  const listed = [...names.map(name => `.${name}`), ...(others ? [others.text] : [])].join(', ')
  const how = codec === undefined ? '' : ` (decode: ${codec})`
  const advice =
    codec?.form === 'message'
      ? `; if its lines have fields, set ${ANY_FIELD.map(name => `"decode: ${name}"`).join(' or ')} in ${id}, or add a processor of type parse after it`
      : ''
  return `${id}${how} ${kind === 'source' ? 'has' : 'adds'} ${listed}${advice}`
}

/** Warns if a processor needs event times, but one of its sources sends events that cannot have a time field. */
export function checkTimes(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  for (const draft of drafts.values()) {
    const search = draft.config?.definition.findsTime?.(draft.config.options as never)
    if (!search) continue
    const upstream = upstreamOf(draft, drafts)
    if (upstream.some(({ kind, config }) => kind === 'processor' && adds(config, search))) continue
    const without = upstream.filter(source => source.kind === 'source' && !mayHaveTime(source, search))
    if (without.length === 0) continue
    const names = without.map(source => source.id).join(', ')
    const text = `finds no time in the lines of ${names}, so their events count at the time of their arrival. If the lines have fields, set decode in ${names}, as in decode: json, or add a processor of type parse before this one. Otherwise, replace ${search.option} with on_backlog: pace`
    report(warnings, draft, [search.option], text)
  }
}

/** Whether the source's events can have a field in `search.names`. A field with the time of reading does not count. */
function mayHaveTime({ config }: Draft, search: TimeSearch): boolean {
  if (!config) return true
  const { decode } = config.options as { decode?: Codec }
  const fields = decode ? decode.eventFields : config.definition.fields?.(config.options as never)
  return hasOneOf(fields, search)
}

function adds(config: Draft['config'], search: TimeSearch): boolean {
  const { definition, options } = config ?? {}
  return definition?.fields !== undefined && hasOneOf(definition.fields(options as never), search)
}

function hasOneOf(fields: EventFields | undefined, { names }: TimeSearch): boolean {
  return fields === undefined || names.some(name => fields.names.includes(name) || fields.others?.test(name))
}
