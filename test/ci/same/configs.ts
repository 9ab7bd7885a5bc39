import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse, stringify } from 'yaml'
import { checkout } from '../../support/checkout.js'
import { docBlocks, docPages, fileName, place } from '../../support/doc-blocks.js'
import type { Seeded } from '../../support/seeded.js'
import type { Case } from './play.js'

/** A configuration of `config/examples` or of the pages for users. */
export interface Found {
  readonly name: string
  readonly text: string
  /** Other named blocks of the page, by path. */
  readonly files: Readonly<Record<string, string>>
}

type Component = Record<string, unknown> & { type: string; inputs?: string[] }
type Components = Record<string, Component>
interface Tests {
  steps: { into: string; events: (string | object)[] }[]
}
interface Configuration {
  sources?: Components
  processors?: Components
  destinations?: Components
  tests?: Tests[]
}

export function findConfigs(): Found[] {
  const folder = join(checkout, 'config/examples')
  const examples = readdirSync(folder).map(name => ({
    name: `config/examples/${name}`,
    text: readFileSync(join(folder, name), 'utf8'),
    files: {},
  }))
  const blocks = docPages().flatMap(page => {
    const found = docBlocks(page)
    const named = found.filter(block => fileName(block)?.startsWith('/') === false)
    const files = Object.fromEntries(named.map(block => [fileName(block)!, block.text]))
    return found
      .filter(({ language, words }) => language === 'yaml' && !/^(prometheus|rules)$/.test(words[0] ?? ''))
      .map(block => {
        const section = block.words[0] === 'part' ? block.words.slice(1).find(word => !word.includes('=')) : undefined
        const indented = block.text.replace(/^(?=.)/gm, '  ')
        return { name: place(block), text: section ? `${section}:\n${indented}` : block.text, files }
      })
  })
  return [...examples, ...blocks]
}

export const hasTests = ({ text }: Found) => /^tests:/m.test(text)

const eventsOf = (tests: readonly Tests[] = [], into?: string) =>
  tests
    .flatMap(({ steps }) => steps)
    .filter(step => into === undefined || step.into === into)
    .flatMap(({ events }) => events)
    .map(event => (typeof event === 'string' ? event : JSON.stringify(event)))

/** Lines that the tests do not have. */
const STRANGE = [
  '',
  ' ',
  '{}',
  'no JSON',
  '{"app":"a","n":1',
  '{"app":"é","message":"größer \\u0000 \\ud83d\\ude00","n":1e400,"level":"error"}',
  '{"app":{"b":[1,null,{"c":true}]},"app":"twice","time":"2026-01-31T12:00:00Z","timestamp":1769860800000}',
  '<34>1 2026-01-31T12:00:00Z mymachine su 77 ID47 [a b="c"] failed for x@example.com',
  'level=warn msg="a b" took=1.5ms user=4111111111111111',
  'I0131 12:00:00.000000 1 a.go:12] started\r',
  '\u001b[31mred\u001b[0m\ttab',
  `{"message":"${'long '.repeat(600)}"}`,
]

/** Returns the events of the tests of all configurations, and strange lines. */
export function corpusOf(configs: readonly Found[]): string[] {
  const all = configs.filter(hasTests).flatMap(({ text }) => eventsOf((parse(text) as Configuration).tests))
  return [...new Set([...all, ...STRANGE])]
}

const bytes = (lines: readonly string[]) => Buffer.from(lines.map(line => `${line}\n`).join(''))

/** A run that feeds a configuration the events of its tests and the corpus. Undefined if it cannot run alone. */
export function caseOf({ name, text, files }: Found, corpus: readonly string[]): Case | undefined {
  const { sources = {}, processors = {}, destinations = {}, tests } = parse(text) as Configuration
  const all = Object.entries({ ...processors, ...destinations })
  if (all.length === 0 || all.some(([, { scope }]) => scope === 'cluster')) return undefined
  const read = all.flatMap(([, { inputs = [] }]) => inputs)
  const known = new Set([...Object.keys(sources), ...Object.keys(processors), ...Object.keys(destinations)])
  const missing = read.filter(input => !known.has(input.split('.')[0]!))
  // Side outputs of components in another part of the configuration.
  if (missing.some(input => input.includes('.'))) return undefined
  for (const id of missing) sources[id] = { type: 'file', decode: 'json' }
  const unread = Object.keys(processors).filter(id => !read.some(input => input.split('.')[0] === id))
  if (Object.keys(destinations).length === 0 || unread.length > 0)
    destinations.rest_of_it = { type: 'file', inputs: unread, path: 'rest.log' }

  const stdin = Object.entries(sources).find(([, { type }]) => type === 'stdin')?.[0]
  // What a throttle passes of several sources would depend on the first of them.
  const first = Object.keys(sources)[0]
  const inputOf = (id: string) => bytes([...eventsOf(tests, id), ...(id === first ? corpus : [])])
  const fed = Object.keys(sources).filter(id => id !== stdin)
  return {
    name,
    files: { ...files, ...Object.fromEntries(fed.map(id => [`in/${id}.log`, inputOf(id)])) },
    isUnordered: Object.keys(sources).length > 1,
    lives: [stdin === undefined ? {} : { stdin: inputOf(stdin) }],
    config: receiver => {
      const config = {
        data_dir: 'state',
        metrics: false,
        sources: Object.fromEntries(Object.entries(sources).map(([id, source]) => [id, feedable(id, source)])),
        processors: Object.fromEntries(Object.entries(processors).map(([id, one]) => [id, withoutPace(one)])),
        destinations: Object.fromEntries(
          Object.entries(destinations).map(([id, one]) => [id, ours(id, one, receiver)]),
        ),
      }
      return stringify(config, { aliasDuplicateObjects: false })
    },
  }
}

/** Replaces a source by a file that is read once. */
function feedable(id: string, source: Component): Component {
  if (source.type === 'stdin') return source
  const { decode = source.type === 'journald' || source.type === 'http' ? 'json' : 'text', multiline } = source
  const include = [`in/${id}.log`]
  return { type: 'file', include, follow: false, decode, ...(multiline ? { multiline } : {}) }
}

/** All lines are there before the start: a throttle that paces would discard nothing, and take its time. */
function withoutPace(one: Component): Component {
  const { max_delay, ...rest } = one
  return one.on_backlog === 'pace' ? { ...rest, on_backlog: 'as_live' } : one
}

function ours(id: string, one: Component, receiver: string): Component {
  if (one.type === 'file') return { ...one, path: `out/${id}-${basename(String(one.path))}` }
  // The base does not have them.
  if (['loki', 'elasticsearch', 's3', 'kafka'].includes(String(one.type)))
    return { type: 'http', inputs: one.inputs!, url: `${receiver}/${id}`, max_in_flight: 1 }
  if (one.type !== 'http') return one
  const { tls, proxy, validate, auth, ...rest } = one
  return { ...rest, url: `${receiver}/${id}`, max_in_flight: 1, ...(auth ? { auth: { key: 'key' } } : {}) }
}

/** Returns the text with one random mistake. */
export function broken({ text }: Found, random: Seeded): string {
  const lines = text.split('\n')
  const at = random.below(lines.length - 1)
  const line = lines[at]!
  const changed = random.pick([
    () => [],
    () => [line, line],
    () => [line.replace(/(\w)(\w*:)/, '$1x$2')],
    () => [line.replace(/: .+/, ': nonsense')],
    () => [line.replace(/\d+/, '-1')],
    () => [line.replace(/: /, ': { a: 1 } # ')],
    () => [` ${line}`],
    () => [line.replace(/[\])}'"]/, '')],
  ])()
  return [...lines.slice(0, at), ...changed, ...lines.slice(at + 1)].join('\n')
}
