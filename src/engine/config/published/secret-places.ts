import { codecsInUse } from '../../../core/codecs/options.js'
import type { AnyDefinition, Kind } from '../../../core/component.js'
import type { Fault } from '../../../core/errors.js'
import { textOptions } from '../../../core/options/reach.js'
import { isLikeKey, isSecretParameter, parametersOf, type Span, userOf } from '../../../net/urls.js'
import { componentSchema, KINDS, SECTIONS } from '../schema.js'
import { referencesIn, SECRET_NAME, textsIn } from './account-secrets.js'

/**
 * Components of a published pipeline may have secrets in options that their schemas mark as `secret()`, in values of
 * `headers`, in user names, and in URLs: as the user, the password or a parameter. Each secret must be a reference,
 * since everyone who can read the pipeline could see a literal key.
 */

type Document = Readonly<Record<string, unknown>>
type Path = readonly string[]

/** A part of a text. The part may be a secret. */
interface Part extends Span {
  /** Only for the value of a URL parameter: the parameter's name. Empty if the query has a value without `NAME=`. */
  readonly parameter?: string
  /** Whether the part is the secret itself, not a reference to it. */
  readonly isLiteral: boolean
}

interface Text {
  readonly path: Path
  readonly value: string
}

interface Holder extends Text {
  readonly what: Place['what']
  readonly parts: readonly Part[]
}

/** A reference to a secret, environment variable or field. If a field has a default, the default must be a word. */
const VARIABLE = '\\$\\{(?:(?:secret:)?[A-Za-z_][A-Za-z0-9_.-]*|\\.[^{}:]*(?::-[A-Za-z_-]{0,20})?)\\}'
const REFERS = new RegExp(`^(?:${VARIABLE})+$`)
/** A prefix before a secret in a header, as in `Bearer ${secret:NAME}`. */
const PREFIXED = new RegExp(`^([A-Za-z][A-Za-z_-]{0,23})(?:[=:] ?| )(?:${VARIABLE})+$`)
/** Authentication schemes that may precede a secret, but do not look like names of keys. */
const SCHEMES = new Set('basic bearer bot digest dpop gnap hawk negotiate pat splunk ssws'.split(' '))

const isKnown = (text: string): boolean => text === '' || REFERS.test(text)

const PUBLIC_HEADERS = new Set(
  'accept accept-charset accept-language cache-control content-language content-type from traceparent user-agent x-requested-with x-scope-orgid'.split(
    ' ',
  ),
)
const ADDRESS_HEADERS = new Set(['origin', 'referer'])

/** Shown instead of a literal key. This text is not valid as a key or header, so nobody can save it by mistake. */
export const HIDDEN = '••••••••'

/** Literal values in options for a key or a password, with paths such as `destinations.up.auth.key`. */
export function literalKeys(config: Document, components: readonly AnyDefinition[]): { path: string; value: string }[] {
  const found = holdersIn(config, components).filter(
    ({ what, parts }) => what === 'key' && literalsOf(parts).length > 0,
  )
  return found.map(({ path, value }) => ({ path: path.join('.'), value }))
}

export function literalSecrets(holders: readonly Holder[]): Fault[] {
  return holders.flatMap(({ path, parts }) =>
    literalsOf(parts).map(({ parameter }) => {
      const isBare = parameter === ''
      const where = parameter ? `${parameter}=` : ''
      const what = parameter === undefined ? 'is' : isBare ? 'has in its query' : `has in ${parameter}`
      const instead = isBare ? ', or NAME= for a parameter that has no value' : ''
      const message = `${what} a literal value, which everybody who can read the pipeline sees; save it as a secret of the account (sluice api set-secret NAME, or PUT /v3/secret/NAME), and write ${where}\${secret:NAME} here${instead}`
      return { path: path.join('.'), message }
    }),
  )
}

/**
 * Reports references to secrets with invalid names, and references in places that may appear in logs, metrics or file
 * names.
 */
export function misplacedSecrets(config: unknown, holders: readonly Holder[]): Fault[] {
  const held = new Map(holders.map(({ path, parts }) => [path.join('.'), parts]))
  return textsIn(config).flatMap(({ path, value }) => {
    const names = referencesIn(value)
    if (names.length === 0) return []
    const place = path.join('.')
    const parts = held.get(place) ?? []
    const rest = replaced(value, parts, '')
    if (parts.length === 0 || referencesIn(rest).length > 0) return [{ path: place, message: MISPLACED }]
    return names.every(name => SECRET_NAME.test(name)) ? [] : [{ path: place, message: MISNAMED }]
  })
}

const MISPLACED =
  'must not refer to a secret. Only these may: options for a key or a password (such as auth.key and proxy.auth.password), names of users, headers, and the parameters of a URL'
const MISNAMED = 'the name of a secret must begin with a letter and have only A-Z, a-z, 0-9, "_", "." and "-"'

/** In a copy of `config`, replaces literal keys with `HIDDEN`. Without literal keys, returns `config` itself. */
export function hideLiterals<C extends Document>(config: C, components: readonly AnyDefinition[]): C {
  const holders = holdersIn(config, components).filter(({ parts }) => literalsOf(parts).length > 0)
  if (holders.length === 0) return config
  const copy = structuredClone(config)
  for (const { path, value, parts } of holders) {
    const holder = path.slice(0, -1).reduce<unknown>(memberOf, copy) as Record<string, unknown>
    holder[path.at(-1)!] = replaced(value, literalsOf(parts), HIDDEN)
  }
  return copy
}

const literalsOf = (parts: readonly Part[]): readonly Part[] => parts.filter(({ isLiteral }) => isLiteral)

function replaced(value: string, parts: readonly Part[], by: string): string {
  let text = ''
  let at = 0
  for (const { from, to } of parts) {
    text += value.slice(at, from) + by
    at = to
  }
  return text + value.slice(at)
}

/** All texts in which components may have secrets. */
export function holdersIn(config: Document, components: readonly AnyDefinition[]): Holder[] {
  const placesOf = (kind: Kind, type: unknown) => {
    const own = components.filter(one => one.kind === kind && one.type === type)
    if (own.length > 0) return own.flatMap(placesIn)
    // If the plugin of a component was removed, its schema is unknown. Such a component may have secrets in every place
    // where any other component may have them.
    const all = components.flatMap(placesIn)
    return [...new Map(all.map(place => [[place.what, ...place.path].join('.'), place])).values()]
  }
  return KINDS.flatMap(kind =>
    membersOf(config[SECTIONS[kind]]).flatMap(([id, component]) =>
      placesOf(kind, memberOf(component, 'type')).flatMap(({ path, what }) =>
        textsAt(component, path, [SECTIONS[kind], id]).map(text => ({ ...text, what, parts: PARTS[what](text) })),
      ),
    ),
  )
}

/** An option that may have secrets; `*` in its path stands for any list item or mapping key. */
interface Place {
  readonly path: Path
  readonly what: keyof typeof PARTS
}

const known = new WeakMap<AnyDefinition, { codecs: unknown; places: readonly Place[] }>()

function placesIn(component: AnyDefinition): readonly Place[] {
  // The schemas, and so the places, depend on the codecs that can be chosen.
  const codecs = codecsInUse()
  const before = known.get(component)
  if (before?.codecs === codecs) return before.places
  const places = textOptions(componentSchema(component)).flatMap(({ path, reaches }): Place[] => {
    if (reaches === 'secret') return [{ path, what: 'key' }]
    if (path.at(-2) === 'headers') return [{ path, what: 'header' }]
    if (reaches === 'nothing' && NAMES.has(path.at(-1)!)) return [{ path, what: 'name' }]
    return reaches === 'urls' ? [{ path, what: 'url' }] : []
  })
  known.set(component, { codecs, places })
  return places
}

/** Options for names; some receivers expect a key instead. */
const NAMES = new Set(['user', 'username', 'scheme'])

const whole = (value: string, isLiteral: boolean): readonly Part[] => [{ from: 0, to: value.length, isLiteral }]

const PARTS = {
  key: ({ value }: Text): readonly Part[] => whole(value, !isKnown(value)),
  name: ({ value }: Text): readonly Part[] => whole(value, isLikeKey(value)),
  header({ path, value }: Text): readonly Part[] {
    const name = path.at(-1)!.toLowerCase()
    if (ADDRESS_HEADERS.has(name)) return partsOfUrl(value)
    const [, prefix = ''] = PREFIXED.exec(value) ?? []
    const isPrefixed = SCHEMES.has(prefix.toLowerCase()) || (prefix !== '' && isSecretParameter(prefix))
    return whole(value, !PUBLIC_HEADERS.has(name) && !isPrefixed && !isKnown(value))
  },
  url: ({ value }: Text): readonly Part[] => partsOfUrl(value),
}

function partsOfUrl(url: string): readonly Part[] {
  const partOf = ({ from, to }: Span, isSecret = true) => {
    return { from, to, isLiteral: isSecret && !isKnown(url.slice(from, to)) }
  }
  const { user, password } = userOf(url) ?? {}
  const hidden = password && partOf(password)
  // Some receivers expect the key as the user name, and accept any password.
  const hasKey = user && (password === undefined || password.to === password.from || hidden!.isLiteral)
  return [
    ...(user ? [partOf(user, hasKey)] : []),
    ...(hidden ? [hidden] : []),
    ...parametersOf(url).map(({ name, ...span }) => {
      return { ...partOf(span, name === '' || isSecretParameter(name)), parameter: name }
    }),
  ]
}

/** The texts at a path below `value`. `base`: the path of `value` itself. */
function textsAt(value: unknown, [step, ...rest]: Path, base: Path): Text[] {
  if (step === undefined) return typeof value === 'string' ? [{ path: base, value }] : []
  const members = step === '*' ? membersOf(value) : [[step, memberOf(value, step)] as const]
  return members.flatMap(([name, member]) => textsAt(member, rest, [...base, name]))
}

const memberOf = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? (value as Document)[name] : undefined

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

const membersOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])
