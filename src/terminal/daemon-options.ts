import type { OptionSpecs } from './command-line.js'

/** Options that select the daemon to inspect. */
export const DAEMON_OPTIONS = {
  config: {
    type: 'string',
    short: 'c',
    value: 'FILE',
    operand: true,
    text: 'The configuration of the daemon: it says where it is.',
  },
  socket: {
    type: 'string',
    value: 'PATH',
    takes: 'file',
    text: 'Its socket, instead: sluice.sock in its data_dir.',
  },
} as const satisfies OptionSpecs
