import type { OptionSpecs } from '../../daemon/process/command-line.js'

/** Options that select the daemon to inspect. */
export const DAEMON_OPTIONS = {
  config: {
    type: 'string',
    short: 'c',
    value: 'FILE',
    operand: true,
    text: 'The configuration of the daemon, which has its data_dir.',
  },
  socket: {
    type: 'string',
    value: 'PATH',
    takes: 'file',
    text: 'The socket of the daemon instead: sluice.sock in its data_dir.',
  },
} as const satisfies OptionSpecs
