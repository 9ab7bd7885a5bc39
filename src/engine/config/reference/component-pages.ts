import type { AnyDefinition } from '../../../core/component.js'
import { exampleConfig, fence } from './reference.js'

interface Page {
  readonly kind: AnyDefinition['kind']
  readonly title: string
  /** Markdown before and after the sections of the components. */
  readonly before: string
  readonly after?: string
}

export const DESTINATIONS: Page = {
  kind: 'destination',
  title: 'Destinations over the network',
  before: `These destinations deliver at least once. [Delivery](delivery.md) describes retries, buffers, rejected events,
and [which events a kill repeats](delivery.md#what-a-kill-repeats). \`sluice validate --online FILE\` connects to
the receivers without sending an event.

Times keep up to nine digits of the fraction. A leap second (\`23:59:60Z\`) is the first second of the next minute.

Complete configurations: [the access log of nginx to Elasticsearch](../config/examples/nginx-to-elasticsearch.yaml),
[JSON of apps to Loki](../config/examples/app-json-to-loki.yaml),
[all JSON to S3, a limited stream to Loki](../config/examples/app-json-to-s3-and-loki.yaml). Every option is in
[the reference](../config/reference.md#destinations). \`npm run docs\` generates this page.`,
}

export const SOURCES: Page = {
  kind: 'source',
  title: 'Sources',
  before: `A source names in \`decode\` [the codec](../config/reference.md#codecs) that turns its lines into events.
[Delivery](delivery.md#how-long-a-receiver-can-be-away) describes how events wait while a receiver is away. Every option
is in [the reference](../config/reference.md#sources). \`npm run docs\` generates this page.

For other senders, see [UDP](#udp) and [containers](#containers).`,
  after: `## UDP

Sluice does not receive UDP. Let a syslog daemon on the same machine receive the datagrams and send them over TCP. For
rsyslog, in \`/etc/rsyslog.d/60-sluice.conf\`:

\`\`\`text
module(load="imudp")
input(type="imudp" port="514" ruleset="sluice")
ruleset(name="sluice") {
  action(type="omfwd" target="127.0.0.1" port="5140" protocol="tcp" template="RSYSLOG_SyslogProtocol23Format"
    queue.type="LinkedList" action.resumeRetryCount="-1")
}
\`\`\`

\`\`\`yaml part
sources:
  network: { type: tcp, listen: 127.0.0.1:5140, decode: syslog }
\`\`\`

Programs that send GELF over UDP can send it over TCP: use \`decode: gelf\`.

## Containers

Sluice does not ask container runtimes for logs. It reads the files or the journal to which they write:

| containers of | source | \`decode\` |
|---|---|---|
| Docker (\`json-file\`, the default) | \`file\`: \`/var/lib/docker/containers/*/*-json.log\` | \`docker_json\` |
| Docker, Podman (\`journald\`) | \`journald\`; the name is in \`.CONTAINER_NAME\` | |
| Kubernetes (containerd, CRI-O) | \`file\`: \`/var/log/pods/*/*/*.log\` | \`cri\` |

The path of a pod's file has the names of its namespace, its pod and its container:

\`\`\`yaml part
sources:
  pods: { type: file, include: [/var/log/pods/*/*/*.log], decode: cri }
processors:
  names:
    type: parse
    inputs: [pods]
    field: .file
    codec: regex
    pattern: '/pods/(?<namespace>[^_/]+)_(?<pod>[^_/]+)_[^/]+/(?<container>[^/]+)/'
\`\`\`

To run Sluice itself in a container, see [Containers](containers.md).`,
}

const wrapped = (text: string) => text.replaceAll(/(?=.{121})(.{1,120}) /g, '$1\n')

/** A page with a section for each component that describes its promises. */
export function pageOf({ kind, title, before, after }: Page, components: readonly AnyDefinition[]): string {
  const sections = components.flatMap(definition => {
    const { type, summary, promises, examples } = definition
    if (definition.kind !== kind || !promises) return []
    const { guarantee, order, duplicates, limits, tested, advice } = promises
    const rows = Object.entries({ guarantee, order, duplicates, limits, 'tested with': tested })
    return [
      `## ${type}`,
      wrapped(`${summary} [Options](../config/reference.md#${kind}-${type}).`),
      fence('yaml part', exampleConfig(definition, examples[0]!)),
      ['| | |', '|---|---|', ...rows.map(([name, text]) => `| ${name} | ${text} |`)].join('\n'),
      ...(advice === undefined ? [] : [wrapped(advice)]),
    ]
  })
  return `${[`# ${title}`, before, ...sections, ...(after === undefined ? [] : [after])].join('\n\n')}\n`
}
