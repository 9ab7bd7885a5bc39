import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HOST, ownPort } from './address.js'
import { bound } from './bound.js'
import { needsServer } from './needs.js'
import { until } from './until.js'

/** A server of `.ci/servers` at HOST. */
export interface Server {
  readonly url: string
  /** With its data. */
  readonly folder: string
  /** The first one is that of `url`. */
  readonly ports: readonly number[]
  readonly child: ChildProcess
  /** Ends it by a signal, and waits for that. */
  kill(signal?: NodeJS.Signals): Promise<void>
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
  /** Answers 200, or `status`, when it works; undefined: it works when it takes connections. */
  readonly ready?: string
  readonly status?: number
  /** Runs once, before its first start. */
  prepare?(program: string, args: readonly string[]): void
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
  /** Listeners: open, of the controller, with SASL, and with SASL over TLS, for which `limits.tls` is a PEM file. */
  kafka: {
    ports: 4,
    args(folder, [plain, controller, sasl, secure], { tls, ...limits }) {
      const listeners = [`PLAIN://${HOST}:${plain}`, `SASL://${HOST}:${sasl}`]
      if (tls) listeners.push(`SECURE://${HOST}:${secure}`)
      const module = 'org.apache.kafka.common.security'
      const sasls = ['sasl', 'secure'].flatMap(name => [
        [
          `listener.name.${name}.plain.sasl.jaas.config`,
          `${module}.plain.PlainLoginModule required user_sluice="plain-password";`,
        ],
        [`listener.name.${name}.scram-sha-256.sasl.jaas.config`, `${module}.scram.ScramLoginModule required;`],
        [`listener.name.${name}.scram-sha-512.sasl.jaas.config`, `${module}.scram.ScramLoginModule required;`],
        // It checks the claims and the times of tokens, not their signatures.
        [
          `listener.name.${name}.oauthbearer.sasl.jaas.config`,
          `${module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
        ],
      ])
      const one = [
        'offsets.topic.num.partitions',
        'offsets.topic.replication.factor',
        'num.recovery.threads.per.data.dir',
      ]
      const config = {
        'process.roles': 'broker,controller',
        'node.id': 0,
        'controller.quorum.voters': `0@${HOST}:${controller}`,
        'controller.listener.names': 'CONTROLLER',
        'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL',
        listeners: `${listeners.join()},CONTROLLER://${HOST}:${controller}`,
        'advertised.listeners': listeners.join(),
        'inter.broker.listener.name': 'PLAIN',
        'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER',
        'log.dirs': join(folder, 'log'),
        'auto.create.topics.enable': false,
        // One that was killed is not let in again before.
        'broker.session.timeout.ms': 1500,
        'broker.heartbeat.interval.ms': 500,
        'group.initial.rebalance.delay.ms': 0,
        'log.cleaner.enable': false,
        'num.io.threads': 2,
        'num.network.threads': 1,
        ...(tls ? { 'ssl.keystore.type': 'PEM', 'ssl.keystore.location': tls } : {}),
        ...Object.fromEntries([...one.map(name => [name, 1]), ...sasls]),
        ...limits,
      }
      const lines = Object.entries(config).map(([name, value]) => `${name}=${value}\n`)
      writeFileSync(join(folder, 'server.properties'), lines.join(''))
      return ['kafka.Kafka', join(folder, 'server.properties')]
    },
    prepare(program, [, file]) {
      const users = ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap(mechanism => [
        '--add-scram',
        `${mechanism}=[name=sluice,password=first-password]`,
      ])
      const args = ['kafka.tools.StorageTool', 'format', '-t', 'c2x1aWNlLXRlc3QtMDAwMA', '-c', file!, ...users]
      execFileSync(program, args, { stdio: 'pipe' })
    },
  },
  opensearch: searchNode('opensearch'),
  elasticsearch: searchNode('elasticsearch'),
  otelcol: {
    ports: 1,
    // It takes nothing but POST there.
    ready: '/v1/logs',
    status: 405,
    args(folder, [http], limits) {
      const { limit_mib = 4000, ...ofHttp } = limits
      const config = {
        receivers: { otlp: { protocols: { http: { endpoint: `${HOST}:${http}`, ...ofHttp } } } },
        processors: { memory_limiter: { check_interval: '50ms', limit_mib } },
        exporters: { file: { path: join(folder, 'out.ndjson'), append: true, flush_interval: '50ms' } },
        service: {
          telemetry: { metrics: { level: 'none' }, logs: { level: 'error' } },
          pipelines: { logs: { receivers: ['otlp'], processors: ['memory_limiter'], exporters: ['file'] } },
        },
      }
      writeFileSync(join(folder, 'otelcol.yaml'), JSON.stringify(config))
      return ['--config', join(folder, 'otelcol.yaml')]
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

/** A node of OpenSearch, or of Elasticsearch 7. */
function searchNode(name: string): Kind {
  return {
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
      writeFileSync(join(folder, `config/${name}.yml`), JSON.stringify(config))
      writeFileSync(join(folder, 'config/log4j2.properties'), 'rootLogger.level = warn\n')
      return [folder]
    },
  }
}

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
  const server = await makeServer(program, name, folder, limits)
  t.teardown(() => server.kill())
  await server.start()
  return server
}

/** A server that has not been started, with its data in a folder. */
export async function makeServer(
  program: string,
  name: keyof typeof KINDS,
  folder: string,
  limits: Limits = {},
): Promise<Server> {
  const { ports: count, args, ready, status: expected = 200, prepare, env }: Kind = KINDS[name]
  const ports: number[] = []
  while (ports.length < count) ports.push(await ownPort())
  const data = join(folder, name)
  mkdirSync(data)
  const url = `http://${HOST}:${ports[0]}`
  let child: ChildProcess | undefined
  let closed: Promise<unknown> | undefined
  const hasEnded = () => child === undefined || child.exitCode !== null || child.signalCode !== null
  prepare?.(program, args(data, ports, limits))
  return {
    url,
    folder: data,
    ports,
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
        ready === undefined
          ? takesConnections(ports[0]!)
          : fetch(url + ready).then(
              ({ status, body }) => body?.cancel().then(() => status === expected),
              () => false,
            )
      await until(`${name} to answer`, async () => hasEnded() || (await answers()), { every: 50, show: () => said })
      if (hasEnded()) throw new Error(`${name} ended at its start: ${said}`)
    },
    async kill(signal: NodeJS.Signals = 'SIGKILL') {
      if (!hasEnded()) child!.kill(signal)
      await closed
    },
  }
}

function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, HOST)
  return new Promise<boolean>(resolve => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  }).finally(() => socket.destroy())
}
