import { join } from 'node:path'
import type { Peer } from './peer.js'
import type { Program } from './programs.js'

/** How the other programs are started, on which jobs, and where they differ. */

const SYSLOG_NG_MODULES = 'usr/lib/syslog-ng'
/** The garbage collector of Go runs less often: a third less CPU time, for 20 MB. */
const GO_ENV = { GOGC: '400' }
const TOKEN_BUCKET = 'the limit is a token bucket for each key, not a window'

export function rsyslog({ file, version, env, root }: Program): Peer {
  const modules = root === undefined ? [] : ['-M', `${env.LD_LIBRARY_PATH!.split(':')[0]}/rsyslog`]
  return {
    id: 'rsyslog',
    title: 'rsyslog',
    version,
    tasks: {
      J1: { config: 'rsyslog-j1.conf', output: 'raw' },
      J3: {
        config: 'rsyslog-j3.conf',
        output: 'raw',
        linesPerEvent: 2,
        reply: '{"errors":false,"items":[]}',
        difference: 'posts to the bulk API of Elasticsearch, with one more line for each event',
      },
      J4: { config: 'rsyslog-j4.conf', output: 'raw' },
      J7: {
        config: 'rsyslog-j3.conf',
        output: 'json',
        linesPerEvent: 2,
        difference: 'does not parse JSON: posts each line as read, without a time and an id',
      },
      J9: { config: 'rsyslog-j9.conf', output: 'json' },
    },
    command: ({ folder, config }) => ({
      file,
      args: ['-n', '-f', config, '-i', join(folder, 'pid'), ...modules],
      env,
    }),
  }
}

export function syslogNg({ file, version, env, root }: Program): Peer {
  const modules = root === undefined ? [] : [`--module-path=${join(root, SYSLOG_NG_MODULES, shortVersion(version))}`]
  return {
    id: 'syslog-ng',
    title: 'syslog-ng',
    version,
    tasks: {
      J1: { config: 'syslog-ng-j1.conf', output: 'raw' },
      J2: { config: 'syslog-ng-j2.conf', output: 'raw', difference: TOKEN_BUCKET },
      J3: { config: 'syslog-ng-j3.conf', output: 'raw' },
      J4: { config: 'syslog-ng-j4.conf', output: 'raw' },
    },
    command: ({ folder, config }) => {
      const at = (name: string) => join(folder, name)
      const files = [`--persist-file=${at('persist')}`, `--pidfile=${at('pid')}`, `--control=${at('control')}`]
      return { file, args: ['--foreground', '--no-caps', `--cfgfile=${config}`, ...files, ...modules], env }
    },
  }
}

function shortVersion(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

export function collector({ file, version, env }: Program): Peer {
  const difference = 'writes records of OTLP in protobuf, not lines'
  // Two goroutines write: one for full batches, and one every 100 ms for what there is.
  const order =
    'some in another order; with its feature gate stanza.synchronousLogEmitter and a batch processor it keeps the order, for twice the CPU time'
  return {
    id: 'otelcol',
    title: 'OpenTelemetry Collector',
    version,
    tasks: {
      J1: { config: 'otelcol-j1.yaml', output: 'otlp', difference },
      J3: { config: 'otelcol-j3.yaml', output: 'otlp', difference: 'posts records of OTLP in protobuf, not lines' },
      J5: { config: 'otelcol-j5.yaml', output: 'otlp', difference: 'has no throttle, so it does not limit' },
      J4: { config: 'otelcol-j4.yaml', output: 'otlp', anyOrder: true, difference: `${difference}, ${order}` },
      J6: { config: 'otelcol-j6.yaml', output: 'otlp', difference: 'posts OTLP without compression' },
      J8: { config: 'otelcol-j8.yaml', output: 'raw', difference: 'has no spool on the disk' },
      J9: { config: 'otelcol-j9.yaml', output: 'json', difference: 'each line is a string in JSON' },
    },
    command: ({ config }) => ({
      file,
      args: ['--config', `file:${config}`],
      env: { ...env, ...GO_ENV, AWS_ACCESS_KEY_ID: 'bench', AWS_SECRET_ACCESS_KEY: 'bench-secret' },
    }),
  }
}

export function promtail({ file, version, env }: Program): Peer {
  return {
    id: 'promtail',
    title: 'Promtail',
    version,
    tasks: {
      J6: { config: 'promtail-j6.yaml', output: 'loki', difference: 'starts to read five seconds after its start' },
    },
    command: ({ config }) => ({ file, args: [`-config.file=${config}`], env: { ...env, ...GO_ENV } }),
  }
}

export function filebeat({ file, version, env }: Program): Peer {
  return {
    id: 'filebeat',
    title: 'Filebeat',
    version,
    tasks: {
      J7: { config: 'filebeat-j7.yaml', output: 'json', linesPerEvent: 2, difference: 'its documents have no id' },
    },
    command: ({ config, folder }) => {
      const paths = ['home', 'config', 'data', 'logs'].map(name => [`--path.${name}`, folder])
      return { file, args: ['--strict.perms=false', ...paths.flat(), '-c', config], env: { ...env, ...GO_ENV } }
    },
  }
}

export function fluentBit({ file, version, env }: Program): Peer {
  return {
    id: 'fluent-bit',
    title: 'Fluent Bit',
    version,
    tasks: {
      J1: { config: 'fluent-bit-j1.conf', output: 'raw' },
      J2: {
        config: 'fluent-bit-j2.conf',
        output: 'json',
        difference: 'a Lua script counts by key and by second of the clock; lines are encoded again',
      },
      J3: { config: 'fluent-bit-j3.conf', output: 'json', difference: 'each line is a string in a JSON object' },
      J4: { config: 'fluent-bit-j4.conf', output: 'raw' },
    },
    command: ({ config }) => ({ file, args: ['--quiet', '--config', config], env }),
  }
}

export function vector({ file, version, env }: Program): Peer {
  return {
    id: 'vector',
    title: 'Vector',
    version,
    tasks: {
      J1: { config: 'vector-j1.toml', output: 'raw' },
      J2: { config: 'vector-j2.toml', output: 'raw', difference: TOKEN_BUCKET },
      J3: { config: 'vector-j3.toml', output: 'raw' },
      J4: { config: 'vector-j4.toml', output: 'raw' },
    },
    command: ({ config }) => ({ file, args: ['--quiet', '--config', config], env }),
  }
}
