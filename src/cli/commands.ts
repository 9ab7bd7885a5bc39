import { type Command, command, fromStdin, UsageError } from '../daemon/process/command-line.js'
import { dispatch } from '../daemon/process/dispatch.js'
import { apiCommands } from './commands/api.js'
import { developCommands } from './commands/develop.js'
import { CONFIG, inspectCommands } from './commands/inspect.js'
import { runCommand } from './commands/run.js'
import { serviceCommands } from './commands/service.js'
import { loadSimulation } from './wings.js'

/** Every command. Help, completion and the manual page are generated from this table. */
export const commands: readonly Command[] = [
  runCommand,
  command({
    name: 'init',
    summary: 'Looks at this machine, and writes a configuration.',
    text: [
      'Finds the journal, the logs of nginx, Apache, PostgreSQL and Docker, logs that grow in /var/log, receivers that listen on usual ports, and other log shippers. Asks what to read and where to send; each question has an answer to accept with Enter. Then writes a configuration with comments, checks it, connects to the destination with the key, and shows what the newest lines become and how many of them the limit would have discarded. No event is sent.',
      'The command does not overwrite a file. It names what Sluice cannot read yet, and what to do today.',
    ],
    options: {
      yes: { short: 'y', text: 'Accepts the proposed answer to each question.' },
      output: { short: 'o', value: 'FILE', text: 'The configuration to write. Default: sluice.yaml.' },
      read: { value: 'LOG,…', text: 'Ids of found logs, or paths and patterns, as in journal,/srv/app/*.log.' },
      send: { value: 'TYPE=ADDRESS', text: 'Where to send, as in loki=URL, kafka=HOST:PORT or file=PATH.' },
      'key-file': { value: 'FILE', text: 'The file with the access key of the destination.' },
      limit: { value: 'N', text: 'Number of events per second that pass of each app. Default: 100.' },
      root: {
        value: 'FOLDER',
        text: 'Looks at a machine whose / is this folder. Does not connect to the destination.',
      },
    },
    examples: [
      { title: 'with questions', line: 'sudo sluice init' },
      { title: 'in a script', line: 'sluice init --yes --send otlp=https://logs.example.com --key-file key' },
    ],
    run: async ({ options }, io) =>
      (await import('./init/init.js')).initConfig(options, io, (args, io) => dispatch(args, commands, io)),
  }),
  command({
    name: 'validate',
    summary: 'Checks configurations, and reports each error.',
    text: [
      'Each error is a line on standard error: FILE:LINE:COLUMN: path.of.the.option: message. The exit code is 78 if there are errors.',
      'The command also checks the certificates and private keys that a configuration names. A missing file is only a warning, because it may exist where the configuration is used.',
    ],
    options: {
      config: CONFIG,
      online: {
        text: 'Also connects to the servers of destinations, `redis` sources and cluster limits, and checks certificates, keys and rights. Does not send events. The exit code is 1 if a check fails.',
      },
    },
    operands: { name: 'FILE', min: 0, max: Number.MAX_SAFE_INTEGER, text: 'Further configurations.' },
    examples: [
      { title: 'before a restart', line: 'sluice validate /etc/sluice/sluice.yaml' },
      { title: 'does every receiver accept the key?', line: 'sluice validate --online /etc/sluice/sluice.yaml' },
    ],
    run: async ({ options: { config, online }, operands }, io) =>
      (await import('./check/validate.js')).validate([config, ...operands], io.env, io, undefined, online),
  }),
  ...inspectCommands,
  command({
    name: 'simulate',
    summary: 'Shows how a throttle would decide on recorded events.',
    text: [
      'Shows how many events would have passed, by key, and prints the throttle as YAML. The command does not deliver events. It reads each line as its source would, and replays the lines in event time, through the processors before the throttle. Files may be compressed with gzip.',
      'Options change the throttle of the configuration. If options have several values, the command shows a result for each combination. Without a configuration, the options describe the throttle, and each line is a JSON object.',
      'A line that cannot be decoded also counts as an event. An event whose time is missing or unreadable gets the time of the previous event; the result shows the number of these events. If all events lack the time or the key, the command fails and lists the existing fields. If the throttle is behind reduce or aggregate, use --tap.',
      'Ctrl-C ends the input early. The result then covers the events that were read.',
    ],
    options: {
      config: {
        short: 'c',
        value: 'FILE',
        text: 'The configuration with the throttle. If it is a YAML file or a folder, it may also be the first operand, without --config.',
      },
      component: {
        value: 'ID',
        takes: 'throttle',
        text: 'The id of the throttle, if the configuration has several throttles.',
      },
      time: {
        value: 'PATH',
        text: 'The field with the time of an event: milliseconds since the epoch, or an ISO 8601 string. auto: the first usual field with a time. Default: time_field of the throttle, otherwise auto.',
      },
      limit: {
        many: true,
        value: 'N,…',
        text: 'Number of events that pass per window. For several limits: 10,50,100.',
      },
      window: { many: true, value: 'DURATION,…', text: 'Length of the window, as in 10s. For several windows: 1s,1m.' },
      key: {
        many: true,
        value: 'PATH',
        text: 'The field whose value names the bucket, or a list of fields, as in [.app, .host]. May be given several times.',
      },
      suggest: {
        value: 'GOAL',
        text: `Finds the lowest limit that keeps a share of the events, as in "keep 99% where .level equal 'error'", and shows the other effects of this limit. Also lists the windows and keys for which no limit keeps that share.`,
      },
      report: { value: 'OUT.html', takes: 'file', text: 'Also writes the result as an HTML page.' },
      'limit-bytes': {
        more: true,
        many: true,
        value: 'SIZE,…',
        text: 'Total size of the events that pass per window, as in 1MB. For several limits: 1MB,5MB.',
      },
      exclude: { more: true, value: 'CONDITION', text: 'Events that are exempt from the limit.' },
      'window-mode': {
        more: true,
        value: 'MODE',
        takes: ['fixed', 'aligned', 'sliding', 'gcra'],
        text: 'Position of the windows in time: fixed, aligned, sliding or gcra.',
      },
      budget: {
        more: true,
        value: 'BUDGET',
        text: 'Finds the highest limit that passes at most this size per calendar period (second, minute, hour, day, week or month), as in "5GB per day". An input shorter than the period gets a share of the budget.',
      },
      'time-zone': {
        more: true,
        value: 'ZONE',
        text: 'With --budget: the time zone in which periods begin and end, as in Europe/Berlin. Default: UTC, as for quota.',
      },
      tap: {
        more: true,
        value: 'ID',
        takes: 'throttle',
        text: 'Instead of an INPUT: the events that reach this throttle of a running daemon. Without --time, each event counts when it arrives.',
      },
      for: { more: true, value: 'DURATION', text: 'How long --tap reads, as in 5m. Ctrl-C ends it earlier.' },
      socket: {
        more: true,
        value: 'PATH',
        takes: 'file',
        text: 'With --tap: the socket of the daemon. Default: sluice.sock in the data_dir.',
      },
      backlog: {
        more: true,
        text: 'Replays the events as backlog: the source fell behind at the first event, and all are read at once after the last. on_backlog of the throttle then decides.',
      },
      decisions: {
        more: true,
        text: 'Writes one JSON object for each event to standard output, in order: {"n":0,"decision":"pass","bucket":"a"}. The summary goes to standard error.',
      },
      json: { more: true, text: 'Prints the result as JSON, with the discards over time.' },
    },
    operands: {
      name: 'INPUT',
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
      takes: 'file',
      text: 'Files of recorded lines. Without INPUT, or with -, the command reads standard input. If events of several sources reach the throttle in different ways, ID=FILE names the source of a file.',
    },
    examples: [
      {
        title: 'try half of the limit',
        line: 'sluice simulate --config sluice.yaml --component limit_app --time .timestamp --limit 50 app.log',
      },
      {
        title: 'six throttles side by side',
        line: 'sluice simulate --config sluice.yaml --time .timestamp --limit 10,50,100 --window 1s,1m app.log.1.gz app.log',
      },
      {
        title: 'the lowest limit that keeps nearly all errors',
        line: `sluice simulate --config sluice.yaml --time .timestamp --suggest "keep 99% where .level equal 'error'" app.log`,
      },
      {
        title: 'the highest limit within a budget per day, by the days of Berlin',
        line: `sluice simulate --config sluice.yaml --budget "5GB per day" --time-zone Europe/Berlin app.log.1.gz app.log`,
      },
      {
        title: 'an HTML page, and JSON for a script',
        line: 'sluice simulate --config sluice.yaml --limit 10,50,100 --report out.html --json app.log',
      },
      {
        title: 'events of a running daemon',
        line: 'sluice simulate --tap limit_app --for 5m --limit 10,50,100',
      },
      {
        title: 'without a configuration',
        line: 'sluice simulate --limit 100 --window 1s --key .app --time .timestamp app.log',
      },
    ],
    run: async ({ options, operands }, io) => (await loadSimulation()).simulate(options, operands, io),
  }),
  command({
    name: 'throttle',
    summary: 'Throttles standard input to standard output.',
    text: [
      'The command does not need a configuration. Each line is an event. A JSON object has its own fields; any other line has the field .message. Lines that pass are written unchanged. At the end, or on Ctrl-C, a summary by key is printed to standard error.',
    ],
    options: {
      limit: { value: 'N', required: true, text: 'Number of events that pass per window, in each bucket.' },
      window: { value: 'DURATION', required: true, text: 'Length of the window: "10 Seconds" or 10s.' },
      key: { value: 'PATH', text: 'The field whose value names the bucket. Default: one bucket for all.' },
      exclude: { value: 'CONDITION', text: 'Events that always pass and are not counted.' },
      'window-mode': {
        value: 'MODE',
        takes: ['fixed', 'aligned', 'sliding', 'gcra'],
        text: 'Position of the windows in time: fixed (default), aligned, sliding or gcra.',
      },
      time: {
        value: 'PATH',
        text: 'The field with the time of an event, for windows in event time instead of clock time. auto: the first usual field with a time, as in simulate; the default if standard input is a file.',
      },
      discarded: { value: 'FILE', text: 'Writes the discarded lines to this file, replacing its content.' },
      quiet: { text: 'Does not print the summary.' },
    },
    instead: fromStdin,
    examples: [
      { title: 'ten lines a second of each app', line: 'sluice throttle --limit 10 --window 1s --key .app < in > out' },
      {
        title: 'errors always pass',
        line: `sluice throttle --limit 9 --window 1s --exclude "if (.level equal 'error')"`,
      },
    ],
    run: async ({ options }, io) => (await loadSimulation()).throttleLines(options, io),
  }),
  command({
    name: 'resend',
    summary: 'Sends rejected events again, from the dead-letter queue.',
    text: [
      'Rejected events are in data_dir/dead-letter/ID.ndjson. The destination sends them as configured, with its batches and retries. Accepted events are removed from the file; events that are rejected again stay in it. The exit code is 1 if any events stay.',
      'A daemon may run at the same time and write new rejected events. If the command is interrupted by a signal or a crash, the next call continues; after a crash, the last events may be sent twice. While the command runs, the file is in the folder FILE.sending.',
    ],
    options: {
      config: {
        short: 'c',
        value: 'FILE',
        operand: true,
        text: 'The configuration with the destination. Default: the configuration of the daemon on this machine, otherwise /etc/sluice/sluice.yaml.',
      },
      destination: {
        value: 'ID',
        takes: 'destination',
        text: 'The id of the destination. Not needed with --dry-run, or if only one destination has rejected events.',
      },
      'dry-run': { text: 'Prints the number of events to send, by reason. Does not send them.' },
    },
    operands: {
      name: 'FILE',
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
      text: 'Files of rejected events, instead of the file of the destination. Daemons must not write to these files.',
    },
    examples: [
      { title: 'count the rejected events', line: 'sluice resend --dry-run' },
      { title: 'send them after the cause is corrected', line: 'sluice resend --destination upstream' },
      { title: 'with another configuration', line: 'sluice resend --config sluice.yaml --destination upstream' },
    ],
    ships: true,
    async run({ options, operands }, io) {
      const { resend } = await import('./inspect/resend.js')
      const { config, destination, 'dry-run': dryRun } = options
      return resend({ config, destination, dryRun, files: operands }, io)
    },
  }),
  ...serviceCommands,
  ...apiCommands,
  ...developCommands,
  command({
    name: 'docs man',
    summary: 'Writes the manual page to standard output, in roff format.',
    options: {},
    examples: [{ title: 'to read it', line: 'sluice docs man | man -l -' }],
    run: async (_call, io) => (await import('./docs.js')).man(commands, io),
  }),
  command({
    name: 'completion',
    summary: 'Prints a completion script for a shell.',
    options: {},
    operands: { name: 'SHELL', min: 1, max: 1, takes: ['bash', 'zsh', 'fish'], text: 'bash, zsh or fish.' },
    examples: [
      { title: 'in ~/.bashrc', line: 'source <(sluice completion bash)' },
      { title: 'in ~/.zshrc, after compinit', line: 'source <(sluice completion zsh)' },
      { title: 'for fish', line: 'sluice completion fish > ~/.config/fish/completions/sluice.fish' },
    ],
    run: async ({ operands }, io) => (await import('./complete.js')).completion(operands[0]!, io),
  }),
  command({
    name: 'quickstart',
    summary: 'Shows how Sluice works, with generated events.',
    text: [
      'Four invented apps generate 100 events per second; one app at a time is noisy. The daemon passes at most 20 events per second of each app and discards the others. The command also starts a service at 127.0.0.1 with a new account, and the daemon delivers to this service. Without a limit, the daemon also delivers the largest log in /var/log that grows and that it can read, or that of a web server or a database. Each second, a line shows how many events passed and how many were discarded. At the end, a summary shows the totals.',
      'The folder .sluice-quickstart in the current folder contains the configuration, the keys of the account, and received.ndjson with the events that the service received. Each start replaces these files. The command uses free ports, and prints their addresses.',
      'If the environment has SLUICE_URL and SLUICE_ACCESS_KEY, the events go to that service instead, to its published pipeline or to the pipeline that --pipeline names. A log of this machine goes there only with --log.',
    ],
    options: {
      log: { value: 'FILE', text: 'The log to deliver, instead of one of the common logs.' },
      pipeline: { value: 'ID', text: 'With SLUICE_URL: the pipeline, by its id or its title.' },
    },
    examples: [
      { title: 'until Ctrl-C', line: 'sluice quickstart' },
      {
        title: 'to an existing service',
        line: 'SLUICE_URL=http://127.0.0.1:8080 SLUICE_ACCESS_KEY=… sluice quickstart --pipeline web',
      },
    ],
    async run({ options }, io) {
      const { quickstart } = await import('./quickstart/quickstart.js')
      if (options.pipeline !== undefined && !io.env.SLUICE_URL)
        throw new UsageError('--pipeline has no effect without SLUICE_URL', 'quickstart')
      return quickstart(options, io)
    },
  }),
]
