import { dirname, resolve } from 'node:path'
import type { z } from 'zod'
import type { AnyDefinition, Kind } from '../../core/component.js'
import { errorText, type Problem } from '../../core/errors.js'
import { type DeliveryOptions, deliveryOptions } from '../../core/options/delivery-options.js'
import type { Reach } from '../../core/options/reach.js'
import { type OnError, type Plan, planProblem } from '../../core/processor.js'
import {
  type Checked,
  check,
  type DiagnosedValue,
  type Explainer,
  type Issue,
  nearestBranch,
  scalarText,
  wantsPlain,
} from './checks/diagnostics.js'
import { insteadOf } from './checks/foreign-files.js'
import { knownElsewhere } from './checks/foreign-names.js'
import { placeTemplates } from './checks/templates.js'
import {
  COMPONENT_ID,
  commonSchema,
  deliverySchema,
  inputs as inputsSchema,
  KINDS,
  LONGEST_ID,
  SECTIONS,
  shapeOf,
  unwrapped,
} from './schema.js'
import { type ConfigNode, locate, type MapEntry, type MapNode, placeOf, toValue } from './yaml/node.js'
import type { Path } from './yaml/path.js'
import type { Problems } from './yaml/problems.js'

/** Names of sections. A section among a component's options is probably indented too far. */
const TOO_FAR_IN: readonly string[] = [...Object.values(SECTIONS), 'tests']

/** A component of the configuration. The schema of its definition has parsed its options. */
export interface ComponentConfig<K extends Kind = Kind> {
  readonly id: string
  readonly kind: K
  readonly type: string
  /** `limit_app`, or `limit_app.discarded` for a side output. Empty for sources. */
  readonly inputs: readonly string[]
  /** The parsed options, as `definition.create` takes them. */
  readonly options: unknown
  /** Only for sources and processors: the options as plain data, before parsing. */
  readonly given?: unknown
  /** Only for destinations. */
  readonly delivery?: DeliveryOptions
  /** Only for processors. */
  readonly plan?: Plan
  /** Only for processors: what happens to an event that the processor cannot process. */
  readonly onError?: OnError
  readonly definition: AnyDefinition<K>
  /** The component's previous id. The component takes over the state that data_dir has under this id. */
  readonly renamedFrom?: string
  readonly place?: Pick<Problem, 'file' | 'line' | 'column'>
  /** Files that the component reads besides its inputs, such as keys and tables. */
  readonly reads?: readonly string[]
  /** Only for components of a published pipeline: their limits at runtime. */
  readonly reach?: Reach | undefined
}

/** A component as the configuration has it, valid or not. */
export interface Draft {
  readonly id: string
  readonly kind: Kind
  readonly entry: MapEntry
  /** Undefined if its type is unknown. */
  readonly definition: AnyDefinition | undefined
  readonly inputs: readonly { readonly text: string; readonly node: ConfigNode }[]
  /** Undefined if it is invalid. */
  readonly config: ComponentConfig | undefined
}

/** Reports a problem or warning at an option of a component. An empty `path` means the component itself. */
export function report(to: Problems, { kind, id, entry }: Draft, path: Path, message: string): void {
  const place = path.length === 0 ? entry.key : placeOf(locate(entry.value, path, entry.key))
  to.add(place, [SECTIONS[kind], id, ...path], message)
}

export const notDescribed = (error: unknown): string =>
  `the plugin failed to describe this component: ${errorText(error)}`

export class ComponentReader {
  readonly #definitions: ReadonlyMap<string, AnyDefinition>
  readonly #problems: Problems
  readonly #explainer: Explainer
  readonly #hasAll: boolean
  /** The option names of each definition. They are computed when an unknown option is first reported. */
  readonly #names = new Map<AnyDefinition, ReturnType<typeof namesOf>>()

  /** `hasAll`: whether all plugins were loaded. If not, a type that seems unknown may be in a plugin that failed. */
  constructor(components: readonly AnyDefinition[], problems: Problems, explainer: Explainer, hasAll: boolean) {
    this.#definitions = new Map(components.map(definition => [`${definition.kind} ${definition.type}`, definition]))
    this.#problems = problems
    this.#explainer = explainer
    this.#hasAll = hasAll
  }

  /** Reads one component and reports all its problems. `before`: the id of the component above it. */
  read(kind: Kind, id: string, entry: MapEntry, before?: string): Draft {
    const path = [SECTIONS[kind], id]
    const subject: DiagnosedValue = { node: entry.value, path, key: entry.key }
    if (id.length > LONGEST_ID) this.#problems.add(entry.key, path, `an id has at most ${LONGEST_ID} characters`)
    else if (!COMPONENT_ID.test(id)) {
      this.#problems.add(entry.key, path, `an id is made of a-z, 0-9 and _, and begins with a letter${possibleId(id)}`)
    }
    const draft = { id, kind, entry, inputs: [], definition: undefined, config: undefined }
    const node = entry.value
    if (node.kind !== 'map') {
      const broken = node.kind === 'scalar' && node.broken
      const option = before === undefined ? '' : `; if this is an option of ${before}, put more spaces before it`
      if (!broken) this.#problems.add(entry.key, path, `must be a mapping of options, the type first${option}`)
      return draft
    }
    const definition = this.#definition(kind, node, subject)
    const known = { ...draft, definition, node, subject }
    if (definition?.plugin === undefined) return this.#readKnown(known)
    try {
      return this.#readKnown(known)
    } catch (error) {
      this.#problems.add(entry.key, path, notDescribed(error))
      return { ...draft, definition }
    }
  }

  #readKnown({ node, subject, ...draft }: Draft & { node: MapNode; subject: DiagnosedValue }): Draft {
    const { id, kind, entry, definition } = draft
    const { path } = subject
    const parts = split(node, definition)
    const inputs = kind === 'source' ? [] : this.#inputs(kind, parts.inputs, subject)
    if (!definition) return { ...draft, inputs: inputs ?? [] }
    const options = this.#parse(definition.options, parts.options, subject, (key, known) =>
      this.#unknownOption(key, known, definition),
    )
    const delivery = kind === 'destination' ? this.#parse(deliverySchema(definition), parts.delivery, subject) : {}
    const common = this.#parse(commonSchema(kind), parts.common, subject) as
      | { renamed_from?: string; on_error?: OnError }
      | undefined
    if (!options || !delivery || !inputs || !common) return { ...draft, definition, inputs: inputs ?? [] }
    if (definition.plugin !== undefined) askAll(definition, options)
    const { module } = definition
    // The path of a module is relative to the configuration file, like the path of a plugin.
    if (module !== undefined && options[module] !== undefined)
      options[module] = resolve(dirname(node.source.file), String(options[module]))
    const plan = kind === 'processor' ? (definition.plan?.(options) ?? {}) : undefined
    const wrong = plan && planProblem(plan)
    if (wrong !== undefined) {
      const { option } = plan!
      const made = option === undefined ? undefined : node.entries.get(option)
      this.#problems.add(made?.key ?? entry.key, made ? [...path, option!] : path, wrong)
      return { ...draft, definition, inputs }
    }
    const config = {
      id,
      kind,
      type: definition.type,
      inputs: inputs.map(({ text }) => text),
      options,
      ...(kind === 'destination'
        ? { delivery: deliveryOf(options, delivery, definition) }
        : { given: toValue(parts.options) }),
      ...(plan ? { plan, onError: common.on_error } : {}),
      definition,
      ...(common.renamed_from === undefined ? {} : { renamedFrom: common.renamed_from }),
      place: { file: entry.key.source.file, ...entry.key.source.place(entry.key.offset) },
    }
    return { ...draft, definition, inputs, config: config as ComponentConfig }
  }

  #definition(kind: Kind, node: MapNode, subject: DiagnosedValue): AnyDefinition | undefined {
    const types = [...this.#definitions.values()].filter(definition => definition.kind === kind).map(({ type }) => type)
    const value = node.entries.get('type')?.value
    const path = [...subject.path, 'type']
    if (!value) {
      this.#problems.add(subject.key ?? node, path, `is missing; it must be one of ${types.join(', ')}`)
      return undefined
    }
    if (value.kind === 'scalar' && value.broken) return undefined
    const type = value.kind === 'scalar' && typeof value.value === 'string' ? value.value : undefined
    const definition = type === undefined ? undefined : this.#definitions.get(`${kind} ${type}`)
    if (definition) return definition
    const other = KINDS.find(kind => this.#definitions.has(`${kind} ${type}`))
    const meant = type === undefined ? '' : this.#explainer.suggestion(type, types)
    if (type !== undefined && !other && meant === '' && !this.#hasAll) return undefined
    // In another case, the name of a type is a typing error.
    const isKnown = type === undefined || types.includes(type.toLowerCase())
    const instead = isKnown ? undefined : insteadOf(kind, type)
    if (instead !== undefined) {
      this.#problems.add(value, path, instead)
      return undefined
    }
    const hint = other
      ? `${type} is a ${other}, and belongs under ${SECTIONS[other]}`
      : `must be one of ${types.join(', ')}`
    const not = type === undefined || other ? '' : `, not ${scalarText(value)}${meant}`
    this.#problems.add(value, path, `${hint}${not}`)
    return undefined
  }

  #inputs(kind: Kind, node: MapNode, subject: DiagnosedValue): Draft['inputs'] | undefined {
    const list = node.entries.get('inputs')
    const path = [...subject.path, 'inputs']
    if (!list) {
      this.#problems.add(
        subject.key ?? node,
        path,
        `is missing; it must list what this ${kind} reads, as in [app_logs]`,
      )
      return undefined
    }
    const checked = check(inputsSchema, toValue(list.value))
    if ('issues' in checked) this.#explainer.explain(checked.issues, { node: list.value, path, key: list.key })
    const items = list.value.kind === 'list' ? list.value.items : []
    const read = items.flatMap(item =>
      item.kind === 'scalar' && !item.broken && typeof item.value === 'string' && item.value !== ''
        ? [{ text: item.value, node: item as ConfigNode }]
        : [],
    )
    return 'issues' in checked && read.length === 0 ? undefined : read
  }

  /** Returns the parsed value, or undefined after reporting why it is invalid. */
  #parse(
    schema: AnyDefinition['options'],
    node: MapNode,
    subject: DiagnosedValue,
    unknown?: (key: string, known: readonly string[]) => string,
  ): Record<string, unknown> | undefined {
    const checked = checkNode(schema, node, subject.path, this.#problems)
    if ('issues' in checked) {
      this.#explainer.explain(checked.issues, { ...subject, node }, unknown)
      return undefined
    }
    return checked.value as Record<string, unknown>
  }

  #unknownOption(key: string, own: readonly string[], definition: AnyDefinition): string {
    const { kind, type } = definition
    if (kind === 'source' && key === 'inputs') return 'a source has no inputs'
    if (TOO_FAR_IN.includes(key)) return `is a section; write ${key}: without spaces before it`
    const names = this.#names.get(definition) ?? namesOf(definition, own)
    this.#names.set(definition, names)
    const { known, inner } = names
    const foreign = knownElsewhere(key, [...known, ...inner])
    const home = foreign ?? inner.find(name => name.endsWith(`.${key}`)) ?? inner.find(name => name === key)
    const [outer, option] = home?.split('.') ?? []
    if (option !== undefined) return `unknown option of ${type}; write it as ${option} in ${outer}: { ${option}: … }`
    return this.#explainer.unknownOption(key, known).replace('unknown option', `unknown option of ${type}`)
  }
}

/**
 * Calls all functions of the definition that later checks will call. If one of these functions throws here, the
 * component is reported as invalid.
 */
function askAll(definition: AnyDefinition, options: Record<string, unknown>): void {
  const { usesFields, fields, copiesLines, catchesUp, findsTime } = definition
  for (const ask of [usesFields, fields, copiesLines, catchesUp, findsTime]) ask?.(options)
  definition.reads?.(options, false)
}

/** The names of all options that a component may have, including `OUTER.INNER` for nested options. */
function namesOf(definition: AnyDefinition, own: readonly string[]) {
  const { kind } = definition
  const delivery = kind === 'destination' ? deliverySchema(definition).shape : {}
  const shape = { ...definition.options.shape, ...delivery }
  const common = Object.keys(commonSchema(kind).shape)
  const known = ['type', ...(kind === 'source' ? [] : ['inputs']), ...own, ...Object.keys(delivery), ...common]
  const inner = Object.keys(shape).flatMap(name => innerNames(shape[name]).map(option => `${name}.${option}`))
  return { known, inner }
}

/** The names of the options inside an option, in any of its variants. */
function innerNames(schema: z.core.$ZodType | undefined): string[] {
  const variants = schema ? (unwrapped(schema)._zod.def as { options?: readonly z.core.$ZodType[] }).options : undefined
  const shapes = variants ?? (schema ? [schema] : [])
  return [...new Set(shapes.flatMap(variant => Object.keys(shapeOf(variant) ?? {})))]
}

/** Calls `placeTemplates`, then parses a part of the document. If required, reads variables as numbers or booleans. */
export function checkNode<T>(schema: z.ZodType<T>, node: MapNode, path: Path, problems: Problems): Checked<T> {
  placeTemplates(node, path, schema, problems)
  const checked = check(schema, toValue(node))
  return 'issues' in checked && readPlain(checked.issues, node) ? check(schema, toValue(node)) : checked
}

/** Converts the text of a variable where its option requires a number or boolean. Returns whether a value changed. */
function readPlain(issues: readonly Issue[], root: ConfigNode): boolean {
  let changed = false
  for (const issue of issues) {
    const { node } = locate(root, (issue.path ?? []) as Path)
    if (!node) continue
    if (node.kind !== 'scalar') {
      const branch = issue.code === 'invalid_union' ? nearestBranch(issue.errors) : undefined
      if (branch && readPlain(branch, node)) changed = true
    } else if (wantsPlain(issue, node)) {
      node.value = node.environment!.plain!
      changed = true
    }
  }
  return changed
}

/** Divides a component's entries into one part per schema. If the definition is unknown, only separates `inputs`. */
function split(
  node: MapNode,
  definition: AnyDefinition | undefined,
): Record<'inputs' | 'options' | 'delivery' | 'common', MapNode> {
  const commonShape = definition ? commonSchema(definition.kind).shape : {}
  const deliveryShape = definition?.kind === 'destination' ? deliverySchema(definition).shape : {}
  const partOf = (key: string) => {
    if (key === 'type') return undefined
    if (key === 'inputs' && definition?.kind !== 'source') return 'inputs'
    if (Object.hasOwn(commonShape, key)) return 'common'
    return Object.hasOwn(deliveryShape, key) ? 'delivery' : 'options'
  }
  const part = (name: string) => ({
    ...node,
    entries: new Map([...node.entries].filter(([key]) => partOf(key) === name)),
  })
  return { inputs: part('inputs'), options: part('options'), delivery: part('delivery'), common: part('common') }
}

/** Adds the delivery options that the definition declares itself. Their values are in `options`. */
function deliveryOf(
  options: Record<string, unknown>,
  delivery: Record<string, unknown>,
  definition: AnyDefinition,
): DeliveryOptions {
  const names = Object.keys(deliveryOptions.shape).filter(
    name => !Object.hasOwn(deliverySchema(definition).shape, name),
  )
  return { ...delivery, ...Object.fromEntries(names.map(name => [name, options[name]])) } as DeliveryOptions
}

/** For `App-Logs`, returns the text `, such as app_logs`, which suggests a valid id. */
function possibleId(id: string): string {
  const possible = id
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[^a-z]+|_+$/g, '')
  return possible ? `, such as ${possible}` : ''
}
