import { componentsOf } from '../../engine/config/inputs.js'
import type { ComponentConfig, Config } from '../../engine/config/load.js'
import { HIDDEN, hideLiterals } from '../../engine/config/published/secret-places.js'
import { SECTIONS } from '../../engine/config/schema.js'
import { writtenValue, yamlOf } from '../../engine/config/yaml/plain-yaml.js'
import type { ComponentSeries, Metrics } from '../../engine/run/measure/metrics.js'
import { documentPath } from '../../lib/version.js'
import { withoutPathKeys } from '../../net/urls.js'

export interface ComponentPage {
  readonly id: string
  readonly kind: string
  readonly type: string
  readonly summary: string
  /** The component's entry in its file. Variables appear by name, secrets are hidden, and comments are left out. */
  readonly config: string
  readonly file?: string
  readonly line?: number
  /** The component's series, as on /metrics. */
  readonly series: readonly ComponentSeries[]
  /** The path of the page that describes the component's options. */
  readonly docs: string
}

export async function componentPage(id: string, config: Config, metrics: Metrics): Promise<ComponentPage | undefined> {
  const component = componentsOf(config).find(one => one.id === id)
  if (!component) return undefined
  const { kind, type, definition, place } = component
  return {
    id,
    kind,
    type,
    summary: definition.summary,
    config: configOf(component, config),
    ...(place && { file: place.file, line: place.line }),
    series: await metrics.of(id),
    docs: `${documentPath('config/reference.md')}#${kind}-${type}`,
  }
}

function configOf({ id, kind, definition }: ComponentConfig, { root }: Config): string {
  const section = root?.entries.get(SECTIONS[kind])?.value
  const entry = section?.kind === 'map' ? section.entries.get(id)?.value : undefined
  if (entry?.kind !== 'map') return ''
  // A comment could contain a former key, so comments are not shown.
  const document = { [SECTIONS[kind]]: { [id]: writtenValue(entry) } }
  const hidden = hideLiterals(document, [definition])[SECTIONS[kind]]!
  const like = { ...entry, flow: false, entries: new Map([[id, { key: entry, value: entry }]]) }
  return yamlOf(hidden, like).replace(/\w:\/\/[^\s'"]+/g, url => withoutPathKeys(url, HIDDEN))
}
