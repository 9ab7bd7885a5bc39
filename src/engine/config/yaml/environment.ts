import { type Path, SECTIONS } from './path.js'

/**
 * Replaces `${NAME}` and `${NAME:-default}` in parsed values, so a variable cannot change the document's structure.
 * `${secret:NAME}` is a secret of an account. The runner of a published pipeline adds such secrets to the variables.
 * `${.path}` refers to a field of an event and stays (core/template.ts).
 */

const REFERENCE = /^([A-Za-z_][A-Za-z0-9_]*|secret:[A-Za-z][A-Za-z0-9_.-]{0,63})(?::-(.*))?$/s
const SECRET = 'secret:'
const FIELD = /^\$\{[^}]*\}?/

/**
 * Whether the path is a processor's option `code`, in which `${` begins a JavaScript expression and is not replaced.
 */
export const isCode = ([section, , option, ...rest]: Path): boolean =>
  section === SECTIONS.processor && option === 'code' && rest.length === 0

export interface Replaced {
  readonly value: string
  readonly values: readonly string[]
  /** Whether the text is a single reference. */
  readonly whole: boolean
  readonly faults: readonly string[]
  readonly template: TemplateText
}

/** A text for template options. It has `$${` for each literal `${`, also in values of variables. */
export interface TemplateText {
  readonly text: string
  /** The first reference to a field, as in `${.app}`, or undefined. */
  readonly field: string | undefined
  /** The first variable that is not set, if a field probably has its name. */
  readonly unset: string | undefined
}

/** Replaces the references in `text`. Undefined if `text` has no references. `$${` stands for a literal `${`. */
export function replaceVariables(text: string, env: NodeJS.ProcessEnv): Replaced | undefined {
  let at = text.indexOf('${')
  if (at === -1) return undefined
  const values: string[] = []
  const faults: string[] = []
  let value = ''
  let template = ''
  let field: string | undefined
  let unset: string | undefined
  let from = 0
  let whole = false
  for (; at !== -1; at = text.indexOf('${', from)) {
    if (at > from && text[at - 1] === '$') {
      value += `${text.slice(from, at - 1)}\${`
      template += text.slice(from, at + 2)
      from = at + 2
      continue
    }
    if (text[at + 2] === '.') {
      field ??= FIELD.exec(text.slice(at))![0]
      value += text.slice(from, at + 2)
      template += text.slice(from, at + 2)
      from = at + 2
      continue
    }
    const end = text.indexOf('}', at)
    const reference = end === -1 ? undefined : REFERENCE.exec(text.slice(at + 2, end))
    if (!reference) {
      faults.push(
        `"\${" begins an environment variable, as in \${NAME} or \${NAME:-default}; write $\${ for "\${" itself`,
      )
      value += text.slice(from, at + 2)
      from = at + 2
      continue
    }
    const name = reference[1]!
    const found = lookUp(name, reference[2], env)
    if (found === undefined && name.startsWith(SECRET)) {
      faults.push(
        `the secret ${name.slice(SECRET.length)} is not available here; a daemon finds the secrets of published pipelines by its option managed.secrets`,
      )
    } else if (found === undefined) {
      if (/[a-z]/.test(name)) unset ??= name
      faults.push(`the environment variable ${name} is not set; set it, or give a default: \${${name}:-default}`)
    }
    value += text.slice(from, at) + (found ?? '')
    template += text.slice(from, at) + (found ?? '').replaceAll('${', () => '$${')
    values.push(found ?? '')
    whole = at === 0 && end === text.length - 1
    from = end + 1
  }
  const rest = text.slice(from)
  return {
    value: value + rest,
    values,
    whole,
    faults: [...new Set(faults)],
    template: { text: template + rest, field, unset },
  }
}

/** As in a shell, the default also replaces the value of an empty variable. */
function lookUp(name: string, fallback: string | undefined, env: NodeJS.ProcessEnv): string | undefined {
  const value = Object.hasOwn(env, name) ? env[name] : undefined
  return fallback === undefined ? value : value || fallback
}

const INTEGER = /^[-+]?[0-9]+$/
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
const OTHER_BASE = /^0(?:x[0-9a-fA-F]+|o[0-7]+)$/
const TRUE = /^(?:true|True|TRUE)$/
const FALSE = /^(?:false|False|FALSE)$/

/** If `text` is a number or boolean in plain YAML 1.2, returns that value. Otherwise returns undefined. */
export function plainValue(text: string): number | boolean | undefined {
  if (INTEGER.test(text) || FLOAT.test(text) || OTHER_BASE.test(text)) return Number(text)
  if (TRUE.test(text)) return true
  return FALSE.test(text) ? false : undefined
}

/** A message reveals a value if it contains this many consecutive characters of the value. */
const RUN = 4

/**
 * Whether `message` may reveal one of the secret values: it contains a part of a value, contains a whole value as a
 * word, or quotes a text that occurs in a value. May return true for a harmless message.
 */
export function reveals(message: string, values: readonly string[]): boolean {
  const quoted = [...message.matchAll(/"([^"]+)"|'([^']+)'|`([^`]+)`/g)].map(match => match[1] ?? match[2] ?? match[3]!)
  const words = new Set(message.split(/[^\p{L}\p{N}]+/u))
  return values.some(value => {
    if (value === '') return false
    if (words.has(value) || (value.length > 1 && message.includes(value))) return true
    if (quoted.some(piece => value.includes(piece))) return true
    for (let at = 0; at + RUN <= message.length; at++) if (value.includes(message.slice(at, at + RUN))) return true
    return false
  })
}
