import { join } from 'node:path'
import { Apt } from './apt.js'
import { builtCollector } from './collector.js'
import { CONF } from './conf.js'
import { builtWithGo, copyModule } from './go-build.js'
import { collector, filebeat, fluentBit, promtail, rsyslog, syslogNg, vector } from './others.js'
import { earlier, loop } from './own.js'
import type { Missing, Peer } from './peer.js'
import { findProgram, type Program, programAt, type Wanted } from './programs.js'

export const PEER_IDS = [
  'loop',
  'rsyslog',
  'syslog-ng',
  'otelcol',
  'promtail',
  'filebeat',
  'fluent-bit',
  'vector',
  'earlier',
] as const
export type PeerId = (typeof PEER_IDS)[number]

export interface Paths {
  /** Where programs are unpacked and built. */
  readonly cache: string
  /** The executables that the user named. */
  readonly given: Readonly<Partial<Record<PeerId, string>>>
}

/** Later versions of Loki come without it. */
const PROMTAIL = '3.5.0'
/** The newest one among the modules of Go. */
const FILEBEAT = '7.17.29'

const PROGRAMS: Record<
  Exclude<PeerId, 'loop' | 'otelcol' | 'promtail' | 'filebeat' | 'earlier'>,
  { wanted: Wanted; peer: (program: Program) => Peer }
> = {
  rsyslog: {
    wanted: {
      name: 'rsyslogd',
      packages: ['rsyslog', 'rsyslog-elasticsearch', 'rsyslog-kafka'],
      path: 'usr/sbin/rsyslogd',
      versionOption: '-v',
    },
    peer: rsyslog,
  },
  'syslog-ng': {
    wanted: {
      name: 'syslog-ng',
      packages: ['syslog-ng-core', 'syslog-ng-mod-http'],
      path: 'usr/sbin/syslog-ng',
      libraries: ['usr/lib/syslog-ng'],
      versionOption: '-V',
    },
    peer: syslogNg,
  },
  'fluent-bit': {
    wanted: {
      name: 'fluent-bit',
      packages: ['fluent-bit'],
      path: 'opt/fluent-bit/bin/fluent-bit',
      versionOption: '--version',
    },
    peer: fluentBit,
  },
  vector: {
    wanted: { name: 'vector', packages: ['vector'], path: 'usr/bin/vector', versionOption: '--version' },
    peer: vector,
  },
}

/** Finds, fetches or builds these programs. */
export function bringPeers(
  ids: readonly PeerId[],
  { cache, given }: Paths,
  progress: (text: string) => void,
): { peers: Peer[]; missing: Missing[] } {
  const apt = new Apt(cache, progress)
  const peers: Peer[] = []
  const missing: Missing[] = []
  for (const id of ids) {
    try {
      peers.push(bring(id, given[id], cache, apt, progress))
    } catch (error) {
      missing.push({ id, reason: (error as Error).message })
    }
  }
  return { peers, missing }
}

function bring(id: PeerId, given: string | undefined, cache: string, apt: Apt, progress: (text: string) => void): Peer {
  if (id === 'loop') return loop
  if (id === 'earlier') {
    if (given === undefined) throw new Error('give the path of its main.js with --earlier PATH')
    return earlier(given)
  }
  if (id === 'otelcol') {
    if (given !== undefined) return collector(programAt(given, '--version'))
    return collector(builtCollector(cache, join(CONF, 'otelcol-builder.yaml'), progress))
  }
  if (id === 'promtail') {
    if (given !== undefined) return promtail(programAt(given, '--version'))
    const file = builtWithGo(cache, `promtail-${PROMTAIL}`, progress, build => {
      copyModule(build, `github.com/grafana/loki/v3@v${PROMTAIL}`)
      // This names a folder of the repository that is a module of its own. The version that is required compiles, too.
      build.go('mod', 'edit', '-dropreplace', 'github.com/grafana/loki/pkg/push')
      return './clients/cmd/promtail'
    })
    return promtail({ file, version: PROMTAIL, env: {} })
  }
  if (id === 'filebeat') {
    if (given !== undefined) return filebeat(programAt(given, 'version'))
    const file = builtWithGo(cache, `filebeat-${FILEBEAT}`, progress, build => {
      copyModule(build, `github.com/elastic/beats/v7@v${FILEBEAT}`)
      return './filebeat'
    })
    return filebeat({ file, version: FILEBEAT, env: {} })
  }
  const { wanted, peer } = PROGRAMS[id]
  const program = findProgram({ ...wanted, given }, apt)
  if (program) return peer(program)
  throw new Error(`it is neither in PATH nor in apt; use --${id} PATH`)
}
