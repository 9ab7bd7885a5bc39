const LEVEL =
  'the level is set in the environment, as in SLUICE_LOG_LEVEL=debug (under systemd: Environment=SLUICE_LOG_LEVEL=debug)'

/**
 * For each option, section, type or value of Sluice: its names in Vector, Fluent Bit, Fluentd, Filebeat, Logstash and
 * the OpenTelemetry Collector. `OUTER.INNER` is an option inside another option. The first match counts.
 */
const ELSEWHERE: Readonly<Record<string, string>> = {
  destinations: 'sinks sink outputs output exporters',
  processors: 'transforms transform filters filter',
  filter: 'filter grep drop_event',
  sources: 'receivers inputs input',
  inputs: 'input from match',
  metrics: 'api',
  data_dir: 'data_path path.data storage.path state_dir',
  shutdown_timeout: 'grace',
  type: 'name plugin strategy',
  brokers: 'bootstrap_servers bootstrap.servers bootstrap_brokers broker_list hosts servers broker',
  key_field: 'key message_key message_key_field keys group_by group_key fields key_by partition_by throttle_key',
  key_file: 'key token_file key_path',
  columns: 'fields column_names field_names',
  limit:
    'threshold rate capacity events_per_second max_rate ratelimit.burst group_reset_rate_s max_events ' +
    'after_count group_bucket_limit',
  window: 'ratelimit.interval window_secs window_ms window_size period interval duration per group_bucket_period_s',
  'batch.max_events': 'max_events batch_size bulk_max_size',
  scan_interval:
    'interval glob_minimum_cooldown_ms refresh_interval scan_frequency poll_interval stat_interval ' +
    'discover_interval',
  max_keys: 'max_counters',
  exclude: 'unless skip skip_if exclude_files exclude_path exclude_paths exclude_path_patterns',
  condition: 'filter unless where when if expression regex pattern',
  start: 'match regex pattern start_pattern line_start_pattern format_firstline multiline_start_regexp start_regex',
  time_field: 'timestamp_field time_key',
  include: 'paths path files file_paths',
  files: 'paths',
  read_from:
    'start_position start_at read_from_head read_from_tail from_beginning freshstarttail tail_files ' +
    'ignore_checkpoints seek since_now',
  decode: 'parser parsers parse json decoder decoding codec format',
  preset: 'parser parsers_multiline',
  encoding: 'json codec encoding.codec format',
  max_line_bytes:
    'max_bytes max_length max_message_size message_max_bytes max_line_length max_line_size max_log_size ' +
    'buffer_max_size readbuffersize',
  'batch.max_bytes': 'max_bytes chunk_limit_size max_batch_size',
  max_body_bytes: 'max_body_size body_size_limit',
  rotate_wait: 'close_inactive close_removed close_renamed close_timeout rotate_wait_secs',
  max_open_files: 'harvester_limit max_concurrent_files',
  continue: 'condition_pattern',
  until: 'line_end_pattern multiline_end_regexp end_pattern flush_pattern',
  'multiline.start': 'startmsg.regex multiline.pattern multiline.start_pattern multiline_start_pattern',
  'multiline.until': 'endmsg.regex',
  'multiline.preset': 'multiline.parser',
  listen: 'address listen_address bind_address listen_port addr bind host port endpoint',
  url: 'path address addr host port uri uri_path endpoint hosts server target',
  directory: 'paths path journal_directory',
  max_connections: 'connection_limit max_clients',
  framing: 'delimiter line_delimiter',
  request_timeout: 'read_timeout',
  idle_timeout: 'keepalive read_timeout',
  keep_alive_timeout: 'keepalive',
  units: 'include_units unit',
  matches: 'syslog_identifiers systemd_filter include_matches',
  path: 'uri uri_path target file filename',
  method: 'http_method',
  headers: 'header request.headers',
  compression: 'compress gzip',
  key: 'token api_key bearer_token',
  username: 'user',
  auth: 'token api_key bearer_token authorization username password sasl',
  topic: 'topics topic_id topic_name default_topic',
  acks: 'required_acks rdkafka.request.required.acks',
  id_header: 'event_id',
  max_message_bytes: 'max_request_size rdkafka.message.max.bytes',
  kafka: 'kafka2 rdkafka2 out_kafka',
  'auth.key_file': 'token_file',
  validate: 'healthcheck',
  max_in_flight: 'concurrency in_flight_limit worker workers flush_thread_count request.concurrency',
  connect_timeout: 'open_timeout',
  'retry.max_attempts': 'retry_limit retry_attempts retry_max_times',
  'retry.max_elapsed': 'retry_timeout',
  'retry.initial': 'retry_wait backoff.init',
  'retry.max': 'retry_max_interval backoff.max',
  buffer: 'queue storage',
  'buffer.type': 'queue.type storage.type',
  'buffer.max_bytes': 'queue.max_bytes storage.total_limit_size total_limit_size',
  when_full: 'drop_on_full overflow_action overflow on_full',
  'buffer.when_full': 'drop_on_full overflow_action overflow on_full',
  retry: 'retries max_retries',
  max: 'max_delay retry_max_duration_secs',
  initial: 'retry_initial_backoff_secs backoff',
  max_wait: 'timeout_secs',
  timeout: 'flush_timeout flush_interval timeout_ms read_timeout request.timeout_secs write_timeout timeout_secs',
  'batch.max_wait': 'interval flush_interval batch_timeout batch.timeout_secs',
  max_bytes: 'max_size',
  mode: 'permissions file_mode filecreatemode',
  tls: 'ssl',
  cert_file: 'crt_file certificate cert cert_path crt_path client_cert',
  ca_file:
    'ca ca_path cafile ca_cert cacert verify_certificate insecure_skip_verify verification_mode ' +
    'reject_unauthorized verify certificate_authorities ssl_certificate_authorities',
  client_ca_file: 'ca ca_path cafile ca_file ca_cert cacert certificate_authorities ssl_certificate_authorities',
  server_name: 'verify_hostname sni servername',
  delimiter: 'separator field_separator sep',
  file: 'tail filelog filestream log',
  journald: 'systemd journal',
  http: 'http_server http_client',
  tcp: 'socket syslog',
  stdout: 'console',
  blackhole: 'null',
  throttle: 'rate_limit',
  dedupe: 'logdedup',
  edit: 'remap modify record_modifier mutate',
  script: 'lua wasm',
  parse: 'grok dissect',
  route: 'rewrite_tag copy',
  enrich: 'geoip lookup',
  aggregate: 'log_to_metric metric',
  redact: 'anonymize',
  json: 'ndjson jsonl',
  text: 'plain none bytes',
  raw: 'plain none bytes',
}

export const MEANT = new Map<string, string[]>()
for (const [meant, names] of Object.entries(ELSEWHERE))
  for (const name of names.split(' ')) MEANT.set(name, [...(MEANT.get(name) ?? []), meant])

/** Advice on unknown options. `names` matches the option. The advice applies only where `beside` is a known option. */
const NOTES: readonly (readonly [names: RegExp, beside: string, note: string])[] = [
  [/^(log_?)?level$/, 'format', LEVEL],
  [/^(log_level|loglevel|log\.level|logging|verbosity|debug)$/, 'data_dir', LEVEL],
  [
    /^(ignore_older(_secs)?|older_than|close_older|max_file_age)$/,
    'read_from',
    'files are read whatever their age. Set "read_from: end" to skip the content that files have at the first start, or "exclude" to skip files',
  ],
  [
    /^(fingerprint.*|file_identity|fingerprint_size|ignored_header_bytes)$/,
    'scan_interval',
    'files are always identified by their inode and their content; remove this option',
  ],
  [
    /^partial_line_at_stop$/,
    'rotate_wait',
    'the next start always reads an unfinished line again, from its beginning; remove this option',
  ],
  [
    /^(pos_file|db|sincedb_path|statefile|registry|storage|sincedb)$/,
    'scan_interval',
    'positions are saved in the folder of the top-level option "data_dir"; remove this option',
  ],
  [
    /^(rotate|rotation|rotate_every_kb|number_of_files|max_size|max_backups)$/,
    'fsync',
    'the file is not rotated here. Use logrotate: the file is opened again after it was renamed',
  ],
  [
    /^(key_pass|key_passphrase|passphrase|password)$/,
    'cert_file',
    'a key with a passphrase cannot be used. Remove the passphrase: openssl pkey -in KEY -out KEY_WITHOUT_PASSPHRASE',
  ],
  [
    /^max_pipelines$/,
    'max_processes',
    'pipelines are not limited by number, but by the number of their accounts ("max_processes") and by memory; remove this option',
  ],
  [/^acknowledgements$/, 'inputs', 'events are always acknowledged end to end; remove this option'],
  [
    /^(negate|what|type)$/,
    'preset',
    'use one of these: "start" matches the first line of an event, "continue" its further lines, "until" its last line',
  ],
]

/** Advice for an option that does not exist; `known`: the options that do. */
export function noteOn(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase()
  return NOTES.find(([names, beside]) => names.test(lower) && known.includes(beside))?.[2]
}

/** Returns the candidate that other log shippers call `name`, or undefined if no candidate matches. */
export function knownElsewhere(name: string, candidates: Iterable<string>): string | undefined {
  const lower = name.toLowerCase()
  const known = new Set(candidates)
  if (known.has(lower)) return undefined
  return MEANT.get(lower)?.find(meant => known.has(meant))
}
