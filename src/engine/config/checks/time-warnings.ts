import type { Codec } from '../../../core/codec.js'
import type { EventFields, TimeSearch } from '../../../core/event/event-fields.js'
import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import { locate, placeOf } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'
import { upstreamOf } from './upstream.js'

/** Reports processors that look for the time of events from sources whose lines have none. */
export function checkTimes(drafts: ReadonlyMap<string, Draft>, warnings: Problems): void {
  for (const draft of drafts.values()) {
    const { config, entry, kind, id } = draft
    const search = config?.definition.findsTime?.(config.options as never)
    if (!search) continue
    const upstream = upstreamOf(draft, drafts)
    if (upstream.some(({ kind, config }) => kind === 'processor' && adds(config, search))) continue
    const without = upstream.filter(source => source.kind === 'source' && !mayHaveTime(source, search))
    if (without.length === 0) continue
    const names = without.map(source => source.id).join(', ')
    const text = `finds no time in the lines of ${names}, whose events count when they arrive, as on the clock; set decode in ${names} if the lines have fields, or parse them in between, or else on_backlog in the place of ${search.option}`
    warnings.add(placeOf(locate(entry.value, [search.option], entry.key)), [SECTIONS[kind], id, search.option], text)
  }
}

/** Whether its events can have one of the fields, other than the time at which their line was read. */
function mayHaveTime({ config }: Draft, search: TimeSearch): boolean {
  if (!config) return true
  const { decode } = config.options as { decode?: Codec }
  const fields = decode ? decode.eventFields : config.definition.fields?.(config.options as never)
  return hasOneOf(fields, search)
}

/** Whether a processor adds one of the fields. */
function adds(config: Draft['config'], search: TimeSearch): boolean {
  const { definition, options } = config ?? {}
  return definition?.fields !== undefined && hasOneOf(definition.fields(options as never), search)
}

function hasOneOf(fields: EventFields | undefined, { names }: TimeSearch): boolean {
  return fields === undefined || names.some(name => fields.names.includes(name) || fields.others?.test(name))
}
