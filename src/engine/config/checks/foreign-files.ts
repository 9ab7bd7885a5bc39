import type { Kind } from '../../../core/component.js'
import { type ConfigNode, type ConfigPlace, locate, type MapEntry, type MapNode } from '../yaml/node.js'

/**
 * Each pattern matches the start of a line in another program's configuration. No configuration of Sluice has such a
 * line.
 */
const PROGRAMS: readonly (readonly [string, RegExp])[] = [
  ['Fluent Bit', /^\[(?:service|input|filter|output|parser|multiline_parser)\]/im],
  ['Fluentd', /^<(?:source|match|filter|system)\b[^>\n]*>/m],
  ['Vector', /^\[(?:sources|transforms|sinks)\./m],
  ['Logstash', /^(?:input|filter|output)\s*\{/m],
  ['rsyslog', /^(?:module|input|action|template)\(/m],
  ['syslog-ng', /^@version:/m],
]

/**
 * The other program that this configuration belongs to; undefined if no other program was recognized. `offset`: the
 * position of the text that identifies the program.
 */
export function foreignProgram(text: string): { readonly program: string; readonly offset: number } | undefined {
  for (const [program, pattern] of PROGRAMS) {
    const found = pattern.exec(text)
    if (found) return { program, offset: found.index }
  }
  return undefined
}

/** Each function finds an option that only the YAML configuration of another program has. */
const DOCUMENTS: readonly (readonly [string, (root: MapNode) => MapEntry | undefined])[] = [
  ['Fluent Bit', ({ entries }) => entries.get('pipeline')],
  ['Filebeat', ({ entries }) => [...entries].find(([name]) => /^filebeat(?:\.|$)/.test(name))?.[1]],
  [
    'the OpenTelemetry Collector',
    root => (has(root, 'service', 'pipelines') ? root.entries.get('service') : undefined),
  ],
  ['Promtail', ({ entries }) => entries.get('scrape_configs')],
  ['Vector', root => (isOfVector(root) ? root.entries.get('sinks') : undefined)],
]

export function foreignDocument(root: MapNode): { readonly program: string; readonly place: ConfigPlace } | undefined {
  for (const [program, find] of DOCUMENTS) {
    const place = find(root)?.key
    if (place) return { program, place }
  }
  return undefined
}

/**
 * Whether the components look like Vector's. A section `sinks` alone is not enough, since it may be a mistake in a
 * configuration of Sluice.
 */
function isOfVector(root: MapNode): boolean {
  return (
    componentsIn(root, 'sinks').some(
      sink => has(sink, 'encoding', 'codec') || typeOf(sink) === 'console' || WANTED.has(typeOf(sink)),
    ) ||
    (root.entries.has('sinks') && componentsIn(root, 'transforms').some(transform => typeOf(transform) === 'remap'))
  )
}

const has = (node: ConfigNode, ...path: string[]): boolean => locate(node, path).node !== undefined

function typeOf(component: ConfigNode): string {
  const { node } = locate(component, ['type'])
  return node?.kind === 'scalar' ? String(node.value) : ''
}

function componentsIn(root: MapNode, section: string): ConfigNode[] {
  const node = root.entries.get(section)?.value
  return node?.kind === 'map' ? [...node.entries.values()].map(({ value }) => value) : []
}

/** Types of sources and destinations of other programs. */
const WANTED = new Set(
  'loki elasticsearch opensearch otlp opentelemetry s3 aws_s3 gcs kafka splunk splunk_hec nats redis syslog forward fluent fluent_forward fluentd clickhouse datadog cloudwatch influxdb postgres amqp mqtt pulsar tcp udp socket gelf logstash beats'.split(
    ' ',
  ),
)
/** The destination to use in Sluice, by its name in other programs. */
const INSTEAD: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['opensearch', 'elasticsearch', 'elastic', 'es'].map(name => [
      name,
      'elasticsearch, which sends to OpenSearch, too',
    ]),
  ),
  opentelemetry: 'otlp',
  otel: 'otlp',
  awss3: 's3',
  gcs: 's3, with the endpoint of Google',
}

const CONTAINERS = 'file with include: [/var/lib/docker/containers/*/*-json.log] and decode: docker_json'
const PODS = 'file with include: [/var/log/pods/*/*/*.log] and decode: cri'
/** The source to use in Sluice, by its name in other programs. */
const SOURCES: Readonly<Record<string, string>> = {
  syslog: 'tcp with decode: syslog. For UDP, let rsyslog receive the messages and forward them over TCP',
  udp: 'tcp, and let a program that receives UDP forward over TCP, such as rsyslog',
  socket: 'tcp',
  gelf: 'tcp with decode: gelf',
  opentelemetry: 'otlp',
  otel: 'otlp',
  docker: CONTAINERS,
  dockerlogs: CONTAINERS,
  kubernetes: PODS,
  kuberneteslogs: PODS,
  exec: 'stdin, and run the program before a pipe: PROGRAM | sluice run --config FILE',
}

/** Advice for the type of a source or destination that other programs have, and Sluice does not. */
export function insteadOf(kind: Kind, type: string): string | undefined {
  const name = type.toLowerCase().replaceAll(/[-_]/g, '')
  const isSource = kind === 'source'
  const instead = isSource ? SOURCES : INSTEAD
  if (kind === 'processor') return undefined
  if (Object.hasOwn(instead, name)) return `${isSource ? `there is no source ${type} yet: ` : ''}use ${instead[name]}`
  if (!WANTED.has(type.toLowerCase().replaceAll('-', '_'))) return undefined
  const [own, verb] = isSource
    ? ['http', `let a program with an input for ${type} send lines of JSON to it`]
    : ['otlp', `send to a program with an output for ${type}`]
  return `there is no ${kind} ${type} yet: use ${own}, and ${verb}, such as Fluent Bit or Vector`
}
