import { type Command, command, type OptionSpecs } from '../../daemon/process/command-line.js'

const DAEMON_OPTIONS = {
  config: {
    short: 'c',
    value: 'FILE',
    operand: true,
    text: 'The configuration of the daemon. The socket is in its data_dir.',
  },
  socket: {
    value: 'PATH',
    takes: 'file',
    text: 'Instead of --config: the socket of the daemon, sluice.sock in its data_dir.',
  },
} as const satisfies OptionSpecs

const FOUND =
  'The command finds the daemon by its configuration, or at the default paths. Only root and the user of the daemon may inspect it.'

export const CONFIG = {
  short: 'c',
  value: 'FILE',
  required: true,
  operand: true,
  env: 'SLUICE_CONFIG',
  text: 'The configuration: a YAML file, or a folder of YAML files.',
} as const

/** Commands that inspect a configuration or a daemon, or try a configuration out. */
export const inspectCommands: readonly Command[] = [
  command({
    name: 'test',
    summary: 'Runs the tests of a configuration.',
    text: [
      'The section `tests` contains input events, expected output events, and steps in time. The command reads only the configuration and does not deliver events: sources emit the events of the test, destinations collect them, and processors see the time of the steps. The exit code is 1 if a test fails.',
    ],
    options: { config: CONFIG },
    examples: [{ title: 'before a change goes out', line: 'sluice test sluice.yaml' }],
    run: async ({ options }, io) => (await import('../check/test.js')).test(options.config, io),
  }),
  command({
    name: 'explain',
    summary: 'Shows how one event passes through a configuration.',
    text: [
      'Shows the decision of each component and the reason for it: each part of a condition with the value in the event. The command works offline and does not deliver the event. Each throttle decides as if this were its first event.',
      'With --live, the running daemon also reports the bucket of the event in each throttle: how full the bucket is, when its window began, how many of its events were discarded in the last hour, and where these events went. It also reports the problems of destinations. With a status page, the daemon also reports past events with the fields of this event: which component passed, discarded or rejected them, when and why.',
      'The exit code is 1 if the event does not reach a destination.',
    ],
    options: {
      config: CONFIG,
      source: { value: 'ID', takes: 'source', text: 'The source of the event. Default: the first source.' },
      live: { text: 'Also shows the state of buckets and destinations in the running daemon.' },
      json: { text: 'Prints JSON.' },
    },
    operands: {
      name: 'EVENT',
      min: 0,
      max: 1,
      takes: 'file',
      text: 'A line as the source would read it, an event as sluice tap shows it, or the name of a file that contains one of these. For a journald source, also an entry as journalctl -o json writes it. Without EVENT, or with -, the command reads standard input.',
    },
    examples: [
      {
        title: 'would this event be delivered?',
        line: `sluice explain -c sluice.yaml '{"app":"cart","level":"error"}'`,
      },
      {
        title: 'why is this event discarded?',
        line: 'sluice tap limit_app --discarded --limit 1 | sluice explain -c sluice.yaml --live',
      },
      {
        title: 'an entry of the journal',
        line: 'journalctl -n 1 -a -o json | sluice explain -c sluice.yaml --source system',
      },
    ],
    async run({ options, operands }, io) {
      const { explain } = await import('../check/explain/explain.js')
      const { live, ...rest } = options
      const ask = live ? (await import('../inspect/live-daemon.js')).liveDaemon : undefined
      return explain({ ...rest, ask, event: operands[0] ?? '-' }, io)
    },
  }),
  command({
    name: 'graph',
    summary: 'Draws a configuration: text, Mermaid or Graphviz.',
    text: [
      'With --live, shows values of the daemon that runs this configuration: events per second in and out of every component and on every connection, discarded events, events in flight, and blocked components.',
    ],
    options: {
      config: CONFIG,
      format: {
        value: 'FORMAT',
        takes: ['text', 'mermaid', 'dot'],
        text: 'The format: text (default), mermaid or dot.',
      },
      live: { text: 'Adds the rates of the daemon that runs this configuration.' },
      interval: { value: 'DURATION', text: 'Interval over which rates are averaged. Default: 1s.' },
      socket: { value: 'PATH', takes: 'file', text: 'The socket of the daemon. Default: sluice.sock in the data_dir.' },
    },
    examples: [
      { title: 'in the terminal', line: 'sluice graph sluice.yaml' },
      { title: 'as a picture', line: 'sluice graph --format dot sluice.yaml | dot -Tsvg > pipeline.svg' },
      { title: 'rates, and blocked components', line: 'sluice graph --live sluice.yaml' },
    ],
    run: async ({ options }, io) => (await import('../inspect/graph.js')).graph(options, io),
  }),
  command({
    name: 'doctor',
    summary: 'Finds faults of this machine, and how to mend them.',
    text: [
      'Checks the configuration, the permissions of its paths, the disk, limits of open files, memory and inotify, the clock, the servers with their keys and certificates, the systemd unit with its drop-ins, and what is left in data_dir. Connects to the servers, but does not send events. Changes nothing.',
      'As root, the command checks permissions as the user of the systemd unit, with the environment of the unit. The exit code is 1 if there are findings.',
    ],
    options: {
      config: {
        short: 'c',
        value: 'FILE',
        operand: true,
        env: 'SLUICE_CONFIG',
        text: 'The configuration. Otherwise ~/.config/sluice/sluice.yaml or /etc/sluice/sluice.yaml.',
      },
      json: { text: 'Prints JSON.' },
    },
    examples: [{ title: 'after the installation', line: 'sluice doctor /etc/sluice/sluice.yaml' }],
    run: async ({ options }, io) => (await import('../doctor/doctor.js')).doctor(options, io),
  }),
  command({
    name: 'status',
    summary: 'Shows the problems of a daemon, and how to solve them.',
    text: [
      FOUND,
      'The exit code is 1 if there is a problem (`!`). Notices (`-`) do not affect the exit code: they name data of removed sources, such as saved positions. Events in the buffer or the dead-letter queue of a removed destination are a problem, because they are not delivered.',
    ],
    options: { ...DAEMON_OPTIONS, json: { text: 'Prints JSON.' } },
    examples: [{ title: 'one screen', line: 'sluice status' }],
    run: async ({ options }, io) => (await import('../inspect/status.js')).printStatus(options, io),
  }),
  command({
    name: 'top',
    summary: 'Shows live rates of a daemon: events, discards, buffers.',
    text: [
      FOUND,
      "The command shows discards by reason, and the busiest keys of throttles. In a pipe, it prints one screen after the other. Keys are counted only while the command runs; above 20,000 events per second, only a sample is counted. With a status page, the command also shows the passed and discarded events of each key in the last minute, and since when the key's events are discarded.",
    ],
    options: {
      ...DAEMON_OPTIONS,
      interval: { value: 'DURATION', text: 'Time between two updates. Default: 1s.' },
      count: { value: 'N', text: 'Ends after this number of screens.' },
    },
    examples: [
      { title: 'until Ctrl-C', line: 'sluice top' },
      { title: 'one screen, with the rates of ten seconds', line: 'sluice top --interval 10s --count 1' },
    ],
    run: async ({ options }, io) => (await import('../inspect/top.js')).top(options, io),
  }),
  command({
    name: 'tap',
    summary: 'Shows events that leave a component, as NDJSON.',
    text: [
      FOUND,
      'Tapping does not slow the pipeline. Events that cannot be shown in time are skipped; the number of skipped events is printed to standard error.',
    ],
    options: {
      ...DAEMON_OPTIONS,
      limit: { value: 'N', text: 'Ends after this number of events.' },
      where: { value: 'CONDITION', text: 'Shows only events that match.' },
      discarded: { text: 'Instead, shows the events that the component discards.' },
    },
    operands: {
      name: 'COMPONENT',
      min: 1,
      max: 1,
      mayMiss: true,
      takes: 'component',
      text: 'The id of the component, or a side output as in limit_app.discarded.',
    },
    examples: [
      {
        title: 'ten errors of one application',
        line: `sluice tap limit_app --limit 10 --where "if (.app equal 'cart' AND .level equal 'error')"`,
      },
      { title: 'which events does a throttle discard?', line: 'sluice tap limit_app --discarded --limit 5' },
    ],
    run: async ({ options, operands }, io) =>
      (await import('../inspect/tap.js')).tap({ ...options, component: operands[0] }, io),
  }),
]
