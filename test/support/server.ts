import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { needsServer } from './needs.js'
import { until } from './until.js'

/** A server of `.ci/servers` at HOST. */
export interface Server {
  readonly url: string
  readonly child: ChildProcess
  /** Kills it, and waits for its end. */
  kill(): Promise<void>
  /** Starts it again, at the same ports and with the same data, and waits until it answers. */
  start(limits?: Limits): Promise<void>
}

/** What the configuration of a server says about its limits. */
type Limits = Readonly<Record<string, unknown>>

interface Kind {
  readonly ports: number
  /** The arguments of its command line; it may write files into the folder. */
  args(folder: string, ports: readonly number[], limits: Limits): string[]
  readonly env?: Readonly<Record<string, string>>
  /** Answers 200 when it works. */
  readonly ready: string
}

/** Of versitygw and MinIO. */
export const S3_KEYS = { access_key_id: 'test', secret_access_key: 'first-s3-secret' }

const KINDS = {
  loki: {
    ports: 2,
    ready: '/ready',
    args(folder, [http, grpc], limits) {
      const inMemory = { kvstore: { store: 'inmemory' } }
      const config = {
        auth_enabled: false,
        analytics: { reporting_enabled: false },
        server: {
          http_listen_address: HOST,
          http_listen_port: http,
          grpc_listen_address: HOST,
          grpc_listen_port: grpc,
          log_level: 'warn',
        },
        common: {
          instance_addr: HOST,
          path_prefix: folder,
          replication_factor: 1,
          ring: { instance_addr: HOST, ...inMemory },
          storage: { filesystem: { chunks_directory: `${folder}/chunks`, rules_directory: `${folder}/rules` } },
        },
        memberlist: { bind_addr: [HOST] },
        schema_config: {
          configs: [
            {
              from: '2024-01-01',
              store: 'tsdb',
              object_store: 'filesystem',
              schema: 'v13',
              index: { prefix: 'index_', period: '24h' },
            },
          ],
        },
        // By default it waits 15 s for others, and 10 s for its own scheduler.
        ingester: { lifecycler: { join_after: '0s', min_ready_duration: '0s', final_sleep: '0s' } },
        frontend: { address: HOST, scheduler_dns_lookup_period: '200ms' },
        frontend_worker: { dns_lookup_duration: '200ms' },
        limits_config: limits,
      }
      writeFileSync(join(folder, 'loki.yaml'), JSON.stringify(config))
      return [`-config.file=${join(folder, 'loki.yaml')}`]
    },
  },
  opensearch: {
    ports: 2,
    ready: '/_cluster/health?wait_for_status=yellow&timeout=1s',
    args(folder, [http, transport]) {
      const config = {
        'cluster.name': 'test',
        'discovery.type': 'single-node',
        'path.home': folder,
        'network.host': HOST,
        'http.port': http,
        'transport.port': transport,
        'http.type': 'netty4',
        'transport.type': 'netty4',
        'cluster.routing.allocation.disk.threshold_enabled': false,
      }
      for (const name of ['config', 'modules', 'plugins']) mkdirSync(join(folder, name), { recursive: true })
      writeFileSync(join(folder, 'config/opensearch.yml'), JSON.stringify(config))
      writeFileSync(join(folder, 'config/log4j2.properties'), 'rootLogger.level = warn\n')
      return [folder]
    },
  },
  minio: {
    ports: 1,
    ready: '/minio/health/ready',
    env: {
      MINIO_ROOT_USER: S3_KEYS.access_key_id,
      MINIO_ROOT_PASSWORD: S3_KEYS.secret_access_key,
      MINIO_BROWSER: 'off',
      MINIO_CI_CD: '1',
      MINIO_UPDATE: 'off',
    },
    args: (folder, [http]) => ['server', '--address', `${HOST}:${http}`, join(folder, 'store')],
  },
  versitygw: {
    ports: 1,
    ready: '/health',
    args(folder, [http]) {
      mkdirSync(join(folder, 'root'), { recursive: true })
      const keys = ['--access', S3_KEYS.access_key_id, '--secret', S3_KEYS.secret_access_key]
      const server = ['--port', `${HOST}:${http}`, '--region', 'us-east-1', '--health', '/health']
      return [...keys, ...server, 'posix', join(folder, 'root')]
    },
  },
  victorialogs: {
    ports: 1,
    ready: '/health',
    args: (folder, [http]) => [
      `-httpListenAddr=${HOST}:${http}`,
      `-storageDataPath=${join(folder, 'store')}`,
      '-memory.allowedBytes=256MB',
    ],
  },
} satisfies Record<string, Kind>

/**
 * Starts a server with its data in a folder of the test, and waits until it answers. Undefined: it is not there. It is
 * killed when the test ends.
 */
export async function startServer(
  t: Test,
  name: keyof typeof KINDS,
  folder: string,
  limits: Limits = {},
): Promise<Server | undefined> {
  const program = needsServer(t, name)
  if (program === undefined) return undefined
  const { ports: count, args, ready, env }: Kind = KINDS[name]
  const ports: number[] = []
  while (ports.length < count) ports.push(await ownPort())
  const data = join(folder, name)
  mkdirSync(data)
  const url = `http://${HOST}:${ports[0]}`
  let child: ChildProcess | undefined
  let closed: Promise<unknown> | undefined
  const hasEnded = () => child === undefined || child.exitCode !== null || child.signalCode !== null
  const server = {
    url,
    get child() {
      return child!
    },
    async start(limitsNow = limits) {
      child = spawn(...bound(program, args(data, ports, limitsNow)), {
        cwd: data,
        env: { ...process.env, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      closed = once(child, 'close')
      let said = ''
      for (const stream of [child.stdout!, child.stderr!])
        stream.setEncoding('utf8').on('data', text => {
          said = (said + text).slice(-2000)
        })
      const answers = () =>
        fetch(url + ready).then(
          ({ ok, body }) => body?.cancel().then(() => ok),
          () => false,
        )
      await until(`${name} to answer`, async () => hasEnded() || (await answers()), { every: 50, show: () => said })
      if (hasEnded()) throw new Error(`${name} ended at its start: ${said}`)
    },
    async kill() {
      if (!hasEnded()) child!.kill('SIGKILL')
      await closed
    },
  }
  t.teardown(() => server.kill())
  await server.start()
  return server
}
