import { SECTIONS } from '../sections.js'

/**
 * Secrets of an account in the configuration of a published pipeline: `auth.key`, `proxy.auth.password` and the values
 * of `headers` refer to them as `${secret:NAME}`. The runner of the pipeline inserts the values. Everyone who can read
 * the pipeline sees its configuration, so it must not contain keys itself.
 */

export const SECRET_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/

type Document = Readonly<Record<string, unknown>>
/** The path of a value in a document. */
type Path = readonly string[]

export interface SecretFault {
  readonly path: string
  readonly message: string
}

/** The name of the environment variable that holds the value of a secret. */
export const secretVariable = (name: string): string => `secret:${name}`

const REFERENCE = '${secret:'
const VARIABLES = '(?:\\$\\{(?:secret:)?[A-Za-z_][A-Za-z0-9_.-]*\\})+'
const REFERS = new RegExp(`^${VARIABLES}$`)
/** Also after a prefix that is not secret, as in `Bearer ${secret:NAME}`. */
const REFERS_IN_HEADER = new RegExp(`^(?:[A-Za-z][A-Za-z0-9_-]*(?:[=:] ?| ))?${VARIABLES}$`)

/** Headers whose values are by definition not secret. */
const PUBLIC_HEADERS = new Set(
  'accept accept-charset accept-language cache-control content-language content-type from origin referer traceparent user-agent x-requested-with x-scope-orgid'.split(
    ' ',
  ),
)

/** Shown in place of a literal key. It is invalid as a key and as a header, so it cannot be saved by mistake. */
export const HIDDEN = '••••••••'

const HOW =
  'is a literal value, and everybody who can read the pipeline would see it; save it as a secret of the account (sluice api set-secret NAME, or PUT /v3/secret/NAME), and write ${secret:NAME} here'

/** The sorted names of all secrets that a configuration refers to. */
export function secretNamesIn(config: unknown): string[] {
  const names = new Set<string>()
  for (const { value } of textsIn(config, [])) for (const name of referencesIn(value)) names.add(name)
  return [...names].sort()
}

/** Reports keys that are written literally in a configuration. */
export function literalSecrets(config: Document): SecretFault[] {
  return literalsIn(config).map(path => ({ path: path.join('.'), message: HOW }))
}

/** Reports references with invalid names, and those where the value would be shown: in logs, metrics and file names. */
export function misplacedSecrets(config: Document): SecretFault[] {
  const held = new Set(holdersIn(config).map(({ path }) => path.join('.')))
  return textsIn(config, []).flatMap(({ path, value }) => {
    const names = referencesIn(value)
    if (names.length === 0) return []
    const place = path.join('.')
    if (!held.has(place))
      return [
        { path: place, message: 'must not refer to a secret; only auth.key, proxy.auth.password and headers can' },
      ]
    const wrong = names.filter(name => !SECRET_NAME.test(name))
    return wrong.length === 0
      ? []
      : [
          {
            path: place,
            message: 'the name of a secret must have A-Z, a-z, 0-9, "_", "." and "-" only, a letter first',
          },
        ]
  })
}

/** A literal key and its place. */
export interface Literal {
  readonly path: Path
  readonly value: string
}

/** The configuration with literal keys hidden; the same object if there are none. */
export function hideLiterals<C extends Document>(config: C): C {
  return takeLiterals(config).config
}

/** The configuration with its literal keys hidden, and the keys. The same object if there are none. */
export function takeLiterals<C extends Document>(config: C): { config: C; literals: readonly Literal[] } {
  const literals = literalsIn(config).map(path => ({ path, value: memberAt(config, path) as string }))
  return {
    config: withLiterals(
      config,
      literals.map(({ path }) => ({ path, value: HIDDEN })),
    ),
    literals,
  }
}

/** The configuration with the keys at their places; the same object if there are none. */
export function withLiterals<C extends Document>(config: C, literals: readonly Literal[]): C {
  if (literals.length === 0) return config
  const copy = structuredClone(config)
  for (const { path, value } of literals) {
    const holder = memberAt(copy, path.slice(0, -1))
    if (isMapping(holder)) (holder as Record<string, unknown>)[path.at(-1)!] = value
  }
  return copy
}

function literalsIn(config: Document): Path[] {
  return holdersIn(config)
    .filter(({ value, header }) => {
      if (typeof value !== 'string' || value === '') return false
      if (header === undefined) return !REFERS.test(value)
      return !PUBLIC_HEADERS.has(header.toLowerCase()) && !REFERS_IN_HEADER.test(value)
    })
    .map(({ path }) => path)
}

/** Options that hold a key or a password, besides the values of `headers`. */
const KEYS: readonly Path[] = [
  ['auth', 'key'],
  ['proxy', 'auth', 'password'],
]

/** All options of components that may hold secrets. */
function holdersIn(config: Document): { path: Path; value: unknown; header?: string }[] {
  return Object.values(SECTIONS).flatMap(section =>
    membersOf(config[section]).flatMap(([id, component]) => {
      const options = isMapping(component) ? component : {}
      const keys = KEYS.flatMap(path => {
        const value = memberAt(options, path)
        return value === undefined ? [] : [{ path: [section, id, ...path], value }]
      })
      return [
        ...keys,
        ...membersOf(options.headers).map(([header, value]) => ({
          path: [section, id, 'headers', header],
          value,
          header,
        })),
      ]
    }),
  )
}

/**
 * The names that a text refers to; `$${` stands for a literal `${`. Scans once: a regular expression would search for
 * the end of each reference again, and take minutes for a text with many unfinished ones.
 */
function referencesIn(text: string): string[] {
  const names: string[] = []
  let at = text.indexOf(REFERENCE)
  while (at >= 0) {
    const from = at + REFERENCE.length
    const isLiteral = text[at - 1] === '$'
    const end = isLiteral ? from : text.indexOf('}', from)
    if (end < 0) break
    if (!isLiteral) names.push(text.slice(from, end))
    at = text.indexOf(REFERENCE, end)
  }
  return names
}

function textsIn(value: unknown, path: Path): { path: Path; value: string }[] {
  if (typeof value === 'string') return [{ path, value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => textsIn(member, [...path, name]))
}

function memberAt(options: Document, path: Path): unknown {
  return path.reduce<unknown>((at, name) => (isMapping(at) && Object.hasOwn(at, name) ? at[name] : undefined), options)
}

function isMapping(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const membersOf = (value: unknown): [string, unknown][] => (isMapping(value) ? Object.entries(value) : [])
