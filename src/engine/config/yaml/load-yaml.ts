import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  parseDocument,
  type Scalar,
  visit,
  type YAMLError,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import { tooDeepAt } from '../../../lib/formats/yaml-depth.js'
import { isCode, plainValue, replaceVariables } from './environment.js'
import { type ConfigNode, type ConfigPlace, type MapEntry, type ScalarNode, SourceText } from './node.js'
import { type Path, SECTIONS } from './path.js'
import type { Problems } from './problems.js'

/** Deeper nesting is rejected. No configuration needs it, and reading it could overflow the stack. */
const MAX_DEPTH = 64
/** All aliases of a file together may stand for at most this many values. */
const MAX_ALIASED = 10_000

type Parsed = ReturnType<typeof documentOf>

/**
 * Returns a parsed text as a new tree, in which values of `env` replace variables. Undefined if the text is empty or
 * malformed. Adds all errors to `problems`.
 */
export type TreeOf = (env: NodeJS.ProcessEnv, problems: Problems) => ConfigNode | undefined

/** Parses YAML 1.2, once, when a tree is first needed. */
export function parseYaml(text: string, file: string): TreeOf {
  let parsed: TreeOf | undefined
  return (env, problems) => {
    parsed ??= treeOf(new SourceText(file, text.startsWith('\uFEFF') ? text.slice(1) : text))
    return parsed(env, problems)
  }
}

function treeOf(source: SourceText): TreeOf {
  const broken =
    (offset: number, message: string): TreeOf =>
    (_env, problems) =>
      void problems.add({ source, offset }, [], message)
  const shielded = shieldReferences(source.text)
  const whole = shielded ?? source.text
  const deep = tooDeepAt(whole)
  if (deep !== undefined) return broken(deep, TOO_DEEP)
  const document = documentOf(whole)
  if (document.directives?.yaml.explicit && document.directives.yaml.version !== '1.2')
    return broken(0, 'must be YAML 1.2; remove the %YAML line')
  const structural = [...document.errors, ...document.warnings].find(({ code }) => !(code in RECOVERED))
  if (structural) {
    const { offset, message } = placed(structural, document, source.text)
    return broken(Math.min(offset, source.text.length), message)
  }
  const contents = document.contents as ParsedNode | null
  const isEmpty = !contents || (isScalar(contents) && contents.value === null)
  return (env, problems) => {
    reportErrors(document, source, problems)
    return isEmpty ? undefined : new TreeReader(source, env, problems, shielded !== undefined).read(contents, [], 0)
  }
}

function documentOf(text: string) {
  return parseDocument(text, {
    prettyErrors: false,
    // The parser's check for duplicate keys is off, because it takes quadratic time and reports only one of the places.
    uniqueKeys: false,
    stringKeys: true,
    resolveKnownTags: false,
    logLevel: 'error',
  })
}

/** Reports errors that did not change the structure of the document. */
function reportErrors(document: Parsed, source: SourceText, problems: Problems): void {
  const reported = new Set<number>()
  for (const error of [...document.errors, ...document.warnings]) {
    // One mistake often causes several errors in a line; only the first one helps.
    const offset = Math.min(error.pos[0], source.text.length)
    const { line } = source.place(offset)
    if (!reported.has(line)) problems.add({ source, offset }, [], sentence(error))
    reported.add(line)
  }
}

/**
 * Describes the error that breaks the structure of the document, and finds the place to correct. All other errors are
 * consequences of this error.
 */
function placed(error: YAMLError, document: Parsed, text: string): { offset: number; message: string } {
  const at = error.pos[0]
  const message = sentence(error)
  if (message === OPEN_QUOTE || message === OPEN_BRACKET)
    return { offset: openedAt(document, at, message === OPEN_QUOTE) ?? at, message }
  if (error.code !== 'TAB_AS_INDENT' && error.code !== 'BAD_INDENT') return { offset: at, message }
  const line = text.lastIndexOf('\n', at - 1) + 1
  const offset = line + /^ */.exec(text.slice(line))![0].length
  const section = Object.values(SECTIONS).find(name => text.startsWith(`${name}:`, offset))
  return { offset, message: section ? `${message}; write ${section}: without spaces before it` : message }
}

/** The position of the unclosed quote or bracket before `at`. */
function openedAt({ contents }: Parsed, at: number, quote: boolean): number | undefined {
  let opened: number | undefined
  const inspect = (_key: unknown, node: { range?: readonly number[] | null }) => {
    const [start = 0, end = 0] = node.range ?? []
    if (start <= at && end >= at) opened = start
  }
  visit(contents as ParsedNode, {
    Scalar: (key, node) => (quote && /^QUOTE/.test(node.type ?? '') ? inspect(key, node) : undefined),
    Collection: (key, node) => (!quote && node.flow && opened === undefined ? inspect(key, node) : undefined),
  })
  return opened
}

// References can contain characters with a meaning in YAML. Examples: `{` in `[a, ${B}]`, and a comma or `: ` in a
// default. During parsing, each of these is replaced by a single character that no text contains, so that all offsets
// stay the same.
const SHIELDED = '{}[],:#'
const SHIELDS = '\uFDD0\uFDD1\uFDD2\uFDD3\uFDD4\uFDD5\uFDD6'
const UNSHIELDED_REFERENCE = /\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?::-[^}"'\r\n]*)?|\.[^}"'\r\n]*)\}/g

function shieldReferences(text: string): string | undefined {
  if (!text.includes('${') || /[\uFDD0-\uFDD6]/.test(text)) return undefined
  return text.replace(UNSHIELDED_REFERENCE, reference =>
    reference.replace(/[{}[\],:#]/g, character => SHIELDS[SHIELDED.indexOf(character)]!),
  )
}

function unshield(text: string): string {
  return text.replace(/[\uFDD0-\uFDD6]/g, character => SHIELDED[SHIELDS.indexOf(character)]!)
}

/** Converts the parser's nodes: resolves aliases, replaces variables and reports duplicate keys. */
class TreeReader {
  readonly #source: SourceText
  readonly #env: NodeJS.ProcessEnv
  readonly #problems: Problems
  readonly #shielded: boolean
  /** The values of anchors, by name. Undefined while the value is being read. */
  readonly #anchors = new Map<string, ConfigNode | undefined>()
  #aliased = 0

  constructor(source: SourceText, env: NodeJS.ProcessEnv, problems: Problems, shielded: boolean) {
    this.#source = source
    this.#env = env
    this.#problems = problems
    this.#shielded = shielded
  }

  read(node: ParsedNode | null, path: Path, offset: number): ConfigNode {
    const at: ConfigPlace = { source: this.#source, offset: node?.range[0] ?? offset }
    if (!node) return scalar(at, null)
    if (path.length > MAX_DEPTH) return this.#broken(at, path, `must not be nested deeper than ${MAX_DEPTH} levels`)
    if (isAlias(node)) return this.#alias(node, path, at)
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, undefined)
    const read = isMap(node)
      ? this.#map(node, path, at)
      : isSeq(node)
        ? this.#list(node, path, at)
        : this.#scalar(node, path, at)
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, read)
    return read
  }

  #map(node: YAMLMap.Parsed, path: Path, at: ConfigPlace): ConfigNode {
    const entries = new Map<string, MapEntry>()
    let size = 1
    for (const pair of node.items) {
      const name = this.#text(String((pair.key as Scalar).value))
      const key: ConfigPlace = { source: this.#source, offset: pair.key.range[0] }
      const value = this.read(pair.value, [...path, name], pair.key.range[1])
      size += value.size
      const earlier = entries.get(name)
      if (earlier) {
        const { line } = this.#source.place(earlier.key.offset)
        this.#problems.add(key, [...path, name], `is here twice; the first is in line ${line}`)
      } else if (name === '<<') {
        this.#problems.add(key, [...path, name], 'merging with << is not part of YAML 1.2; write the options out')
      } else if (name === '__proto__') {
        this.#problems.add(key, [...path, name], 'is not a possible name')
      } else entries.set(name, { key, value })
    }
    return { kind: 'map', ...at, flow: node.flow === true, entries, size }
  }

  #list(node: YAMLSeq.Parsed, path: Path, at: ConfigPlace): ConfigNode {
    const items = node.items.map((item, i) => this.read(item as ParsedNode, [...path, i], at.offset))
    const size = items.reduce((sum, item) => sum + item.size, 1)
    return { kind: 'list', ...at, flow: node.flow === true, items, size }
  }

  #scalar(node: Scalar.Parsed, path: Path, at: ConfigPlace): ConfigNode {
    const value = node.value as ScalarNode['value']
    if (typeof value === 'number' && isRounded(value, node.source)) return this.#broken(at, path, ROUNDED)
    if (typeof value !== 'string') return scalar(at, value)
    const text = this.#text(value)
    const replaced = isCode(path) ? undefined : replaceVariables(text, this.#env)
    if (!replaced) return scalar(at, text)
    for (const fault of replaced.faults) this.#problems.add(at, path, fault)
    const unquoted = node.type === 'PLAIN' && replaced.whole
    return {
      ...scalar(at, replaced.value, replaced.faults.length > 0),
      environment: { text, values: replaced.values, plain: unquoted ? plainValue(replaced.value) : undefined },
      template: replaced.template,
    }
  }

  #alias(node: Alias.Parsed, path: Path, at: ConfigPlace): ConfigNode {
    const name = this.#text(node.source)
    const target = this.#anchors.get(name)
    if (target) {
      this.#aliased += target.size
      if (this.#aliased <= MAX_ALIASED) return target
      return this.#broken(at, path, `aliases stand for more than ${MAX_ALIASED} values`)
    }
    // If the file has no anchor of this name, the name is probably part of a password, so the message must not contain
    // the name.
    const message = this.#anchors.has(name)
      ? `the alias *${name} is inside the value that it stands for`
      : 'a value that begins with * is an alias of YAML, and there is no anchor of this name above; for the text, put it in quotes'
    return this.#broken(at, path, message)
  }

  #broken(at: ConfigPlace, path: Path, message: string): ConfigNode {
    this.#problems.add(at, path, message)
    return scalar(at, null, true)
  }

  #text(text: string): string {
    return this.#shielded ? unshield(text) : text
  }
}

function scalar(at: ConfigPlace, value: ScalarNode['value'], broken = false): ScalarNode {
  return { kind: 'scalar', ...at, value, environment: undefined, broken, size: 1 }
}

const ROUNDED = 'is an integer beyond 2^53, which would lose digits; write it in quotes'

/** Whether the integer `source` lost digits when it became a double. */
function isRounded(value: number, source: string): boolean {
  return !Number.isSafeInteger(value) && /^(?:[-+]?\d+|0x[\da-f]+|0o[0-7]+)$/i.test(source) && String(value) !== source
}

/** Errors that do not change the structure of a document. */
const RECOVERED: Readonly<Record<string, true>> = {
  BAD_DQ_ESCAPE: true,
  BAD_SCALAR_START: true,
  TAG_RESOLVE_FAILED: true,
  ALIAS_PROPS: true,
}

const SENTENCES: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias cannot have an anchor or a tag of its own',
  BAD_ALIAS: 'an anchor or alias needs a name that does not end in ":"',
  BAD_DIRECTIVE: 'this directive is not known',
  BAD_DQ_ESCAPE: 'this escape sequence is not known; write \\\\ for a backslash, or use single quotes',
  BAD_INDENT: 'the indentation does not fit the lines above',
  BAD_PROP_ORDER: 'an anchor or tag stands in the wrong place',
  BAD_SCALAR_START: 'a value that begins with this character must be in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a mapping cannot begin here; quote a value that holds ": ", and check the indentation below',
  BLOCK_IN_FLOW: 'within [ ] or { }, lists and mappings must be in brackets, too',
  KEY_OVER_1024_CHARS: 'a key must be shorter than 1024 characters',
  MISSING_CHAR: 'a closing quote, a comma, a ":" or a space is missing here',
  MULTILINE_IMPLICIT_KEY: 'a key must be in one line and followed by ": "',
  MULTIPLE_ANCHORS: 'a value can have one anchor only',
  MULTIPLE_DOCS: 'a second document begins here; one file holds one document',
  MULTIPLE_TAGS: 'a value can have one tag only',
  NON_STRING_KEY: 'a key must be text',
  TAB_AS_INDENT: 'a tab is used as indentation; use spaces',
  TAG_RESOLVE_FAILED: 'this tag has no meaning here; remove it',
  UNEXPECTED_TOKEN: 'this is not expected here; check the quotes and brackets before it, and the indentation',
}

const TOO_DEEP = 'must not be nested this deeply'
const OPEN_QUOTE = 'the quote that opens here is not closed'
const OPEN_BRACKET = 'the bracket that opens here is not closed'

/** The message for an error. The parser's own message is not shown, since it may quote secrets in the document. */
function sentence(error: YAMLError): string {
  if (/Flow (map|sequence) in block collection/.test(error.message)) return OPEN_BRACKET
  if (error.message.startsWith('Missing closing')) return OPEN_QUOTE
  if (error.message.startsWith('Implicit map keys need to be followed')) return 'a ":" is missing behind this key'
  return SENTENCES[error.code] ?? 'this is not YAML'
}
