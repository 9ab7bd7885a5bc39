/** Programs by what a line of their configuration begins with that no configuration of Sluice has. */
const PROGRAMS: readonly (readonly [string, RegExp])[] = [
  ['Fluent Bit', /^\[(?:service|input|filter|output|parser|multiline_parser)\]/im],
  ['Fluent Bit', /^pipeline:\s*$/m],
  ['Fluentd', /^<(?:source|match|filter|system)\b[^>\n]*>/m],
  ['Vector', /^\[(?:sources|transforms|sinks)\./m],
  ['Filebeat', /^filebeat[.:]/m],
  ['Logstash', /^(?:input|filter|output)\s*\{/m],
  ['the OpenTelemetry Collector', /^ +pipelines:\s*$/m],
  ['Promtail', /^scrape_configs:\s*$/m],
  ['rsyslog', /^(?:module|input|action|template)\(/m],
  ['syslog-ng', /^@version:/m],
]

/** The program that a configuration is written for, if it is clearly another one, and where that shows. */
export function foreignProgram(text: string): { readonly program: string; readonly offset: number } | undefined {
  for (const [program, pattern] of PROGRAMS) {
    const found = pattern.exec(text)
    if (found) return { program, offset: found.index }
  }
  return undefined
}

/** Destinations that people ask for and that there are not. */
const WANTED = new Set(
  'loki elasticsearch opensearch otlp opentelemetry s3 aws_s3 gcs kafka splunk splunk_hec nats redis syslog forward fluent clickhouse datadog cloudwatch influxdb postgres amqp mqtt pulsar'.split(
    ' ',
  ),
)

/** What to use in the place of a destination that other programs have. */
export function insteadOf(type: string): string | undefined {
  if (!WANTED.has(type.toLowerCase().replaceAll('-', '_'))) return undefined
  return `there is no destination ${type} yet: use http to a program that takes lines of JSON and sends them on, such as the OpenTelemetry Collector`
}
