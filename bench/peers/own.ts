import { readFileSync } from 'node:fs'
import { checkout } from '../../test/support/checkout.js'
import { built, RUN, SLUICE } from '../measure.js'
import type { JobId, Peer } from './peer.js'

/** Sluice, an earlier build of it, and the loop that no program in Node.js can be faster than. */

const { version } = JSON.parse(readFileSync(`${checkout}/package.json`, 'utf8')) as { version: string }

export const sluice: Peer = {
  id: 'sluice',
  title: 'Sluice',
  version,
  tasks: {
    J1: { config: 'sluice-j1.yaml', output: 'raw' },
    J2: { config: 'sluice-j2.yaml', output: 'raw' },
    J3: { config: 'sluice-j3.yaml', output: 'raw' },
    J4: { config: 'sluice-j4.yaml', output: 'raw' },
    J5: { config: 'sluice-j5.yaml', output: 'otlp' },
    J6: { config: 'sluice-j6.yaml', output: 'loki' },
    J7: { config: 'sluice-j7.yaml', output: 'json', linesPerEvent: 2 },
    J8: { config: 'sluice-j8.yaml', output: 'raw' },
    J9: { config: 'sluice-j9.yaml', output: 'json' },
  },
  command: ({ config }) => ({ file: process.execPath, args: [...RUN, config] }),
}

/** The program whose main.js is given, with the same configurations. */
export const earlier = (main: string): Peer => ({
  ...sluice,
  id: 'earlier',
  title: `Sluice at ${main}`,
  command: ({ config }) => ({
    file: process.execPath,
    args: RUN.map(arg => (arg === SLUICE ? main : arg)).concat(config),
  }),
})

const LOOPS: Partial<Record<JobId, readonly [program: string, mode: string]>> = {
  J1: ['loop', 'copy'],
  J2: ['loop', 'read'],
  J3: ['loop', 'post'],
  J4: ['loop', 'receive'],
  J6: ['server-loop', 'loki'],
  J7: ['server-loop', 'bulk'],
  J8: ['server-loop', 'objects'],
}

export const loop: Peer = {
  id: 'loop',
  title: 'bare loop in Node.js',
  version: process.versions.node,
  tasks: {
    J1: { output: 'raw', difference: 'copies blocks of 256 KiB' },
    J2: { output: 'none', difference: 'reads blocks of 256 KiB and writes nothing' },
    J3: { output: 'raw', difference: 'posts bodies of 2 MiB through a plain socket' },
    J4: { output: 'none', difference: 'reads the connection into one block and writes nothing' },
    J6: { output: 'loki', difference: 'posts protobuf without compression, with one time for each body' },
    J7: { output: 'json', linesPerEvent: 2, difference: 'does not parse JSON: knows where the time is in each line' },
    J8: { output: 'raw', difference: 'hashes objects, but does not sign its requests' },
  },
  command: ({ job, input, out, port }) => {
    const [program, mode] = LOOPS[job]!
    return { file: process.execPath, args: [built(`./peers/${program}.js`), mode, input, out, String(port)] }
  },
}
