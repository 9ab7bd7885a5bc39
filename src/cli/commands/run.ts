import { command, fromStdin, UsageError } from '../../daemon/process/command-line.js'
import { pageWing } from '../../daemon/run/page-wing.js'
import { preload } from '../../lib/preload.js'
import { loadPage } from '../wings.js'

pageWing.load = loadPage

/** `sluice run` loads only the module of this command, not the other commands. */
export const runCommand = command({
  name: 'run',
  summary: 'Runs the daemon: reads sources, delivers events.',
  text: [
    'If all sources end, as standard input does, the daemon delivers all events and exits with code 0. SIGTERM and SIGINT stop the daemon gracefully: it stops reading, delivers the events that it has read, and saves its positions. The next start reads undelivered events again. At a second signal, the daemon exits immediately.',
    'The log is written to standard error, as text on a terminal and as JSON elsewhere, unless `log.format` is set. /metrics, /livez (also as /healthz) and /readyz are served at metrics.listen, by default 127.0.0.1:9598, and on the socket in data_dir.',
    'With --pipeline, the daemon runs a pipeline that the service publishes. It applies each revision without losing an event, and reports its state to the service. It caches the last good revision in data_dir, to start while the service is unreachable. The configuration then contains the local part: sources, data_dir, metrics, and the section `managed` with the permissions of the pipeline on this machine.',
  ],
  options: {
    config: {
      short: 'c',
      value: 'FILE',
      operand: true,
      env: 'SLUICE_CONFIG',
      text: 'The configuration: a YAML file, or a folder of YAML files.',
    },
    'metrics-on-socket': {
      text: 'If the configuration does not set metrics.listen, serves metrics only on the socket. Another daemon can then use 127.0.0.1:9598.',
    },
    pipeline: { value: 'URL', text: 'The address of a pipeline of the service, as in https://host/v3/pipeline/ID.' },
    'key-file': { value: 'FILE', text: 'With --pipeline: file with the access key. Read again when it changes.' },
    'ca-file': {
      value: 'FILE',
      text: 'With --pipeline: PEM file of the certificate authorities to trust when connecting to the service. Read again when it changes.',
    },
    delegate: {
      value: 'ACCOUNT_ID',
      text: 'With --pipeline: the account to act in, if the key belongs to an enterprise service account.',
    },
  },
  instead: (files, line) =>
    files.some(file => /\.ya?ml$/.test(file))
      ? 'a configuration of several files is a folder'
      : `if a source has the type stdin, ${fromStdin(files, line)}`,
  examples: [
    { title: 'the daemon, as the systemd unit runs it', line: 'sluice run --config /etc/sluice/sluice.yaml' },
    {
      title: 'with a pipeline of the service',
      line: 'sluice run --pipeline https://logs.example.com/v3/pipeline/0123456789abcdef01234567 --key-file /etc/sluice/key --config local.yaml',
    },
    { title: 'a pipeline whose source is stdin', line: 'sluice run --config limit.yaml < events.ndjson' },
  ],
  ships: true,
  async run({ options }, io) {
    const { config, pipeline, 'key-file': keyFile, 'ca-file': caFile, delegate } = options
    const metricsOnSocket = options['metrics-on-socket']
    if (pipeline === undefined) {
      for (const [name, value] of Object.entries({ 'key-file': keyFile, 'ca-file': caFile, delegate }))
        if (value !== undefined) throw new UsageError(`--${name} has no effect without --pipeline`, 'run')
      if (config === undefined)
        throw new UsageError('give FILE, the configuration, as in sluice run sluice.yaml', 'run')
      preload(new URL('../../daemon/run/run.js', import.meta.url))
      const { run } = await import('../../daemon/run/run.js')
      return run({ configPath: config, metricsOnSocket }, io)
    }
    if (keyFile === undefined) throw new UsageError('--key-file FILE is missing', 'run')
    const { runManaged } = await import('../../daemon/managed/managed.js')
    return runManaged({ url: pipeline, keyFile, caFile, configPath: config, delegate, metricsOnSocket }, io)
  },
})
