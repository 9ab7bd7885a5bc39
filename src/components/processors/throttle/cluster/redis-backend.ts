import { createHash } from 'node:crypto'
import type { ComponentContext, Observer } from '../../../../core/component.js'
import type { ProcessorOutage } from '../../../../core/status-document.js'
import { Backoff, type Random, systemRandom } from '../../../../lib/backoff.js'
import type { RedisConnection } from '../../../../net/redis/connection.js'
import { type Connect, connectInTime, inTime } from '../../../../net/redis/in-time.js'
import { type RedisProblem, redisProblem } from '../../../../net/redis/redis-error.js'
import type { Backend, OnFailure } from '../../../throttle/cluster/cluster-decider.js'
import { SCRIPT } from '../../../throttle/cluster/script.js'
import {
  type LeaseDemand,
  type LeaseGrant,
  NO_LEASE,
  readReply,
  type ScriptCall,
  SharedLimits,
  scriptCalls,
} from '../../../throttle/cluster/script-calls.js'

export interface RedisBackendOptions {
  readonly group: string
  readonly timeoutMs: number
  /**
   * For the log: what happens to events while the server does not reply. Undefined if the server keeps the limits of
   * the service and not those of a throttle.
   */
  readonly onFailure?: OnFailure
  /** Returns the passwords that were sent to the server. The texts of problems do not show these passwords. */
  readonly passwords?: () => readonly string[]
}

export type RedisBackendContext = Pick<ComponentContext, 'log' | 'clock' | 'metrics'>

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 10_000
/** How long to wait after the server has rejected the password, because it takes time to correct the password. */
const DENIED_WAIT_MS = 10_000
const SHA = createHash('sha1').update(SCRIPT).digest('hex')
/**
 * A demand that takes no units. If the server does not allow its user to read the keys of the group, only this probe
 * fails, and not every batch.
 */
const PROBE: LeaseDemand = {
  ...NO_LEASE,
  limits: new SharedLimits([{ mode: 'fixed', limit: 1, windowMs: 1, unit: 'events' }], 0),
  key: Buffer.from('\0probe'),
}
/** Permissions that the user needs, in the syntax of the server's ACL. */
const PERMISSIONS = '~sluice:* +ping +eval +evalsha +time +get +set'
const MEANWHILE: Readonly<Record<OnFailure, string>> = {
  local_share: 'this daemon passes its share of the limits (on_backend_failure: local_share)',
  pass: 'events pass without being counted (on_backend_failure: pass)',
  discard: 'events are discarded (on_backend_failure: discard)',
  wait: 'events wait (on_backend_failure: wait)',
}
const OF_SERVICE = 'each node allows its share of the limits'
const CODE = { code: 'SLUICE_THROTTLE_BACKEND' }
const FOREIGN =
  'replaced keys that another program had written to the server; their counts restart from zero. Make sure that only Sluice writes keys that begin with sluice:'
const LOG_EVERY_MS = 60_000
const LATENCY_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]
/**
 * The server that keeps the buckets, behind a circuit breaker. After a failure, the server is not asked until it has
 * replied in time to a probe on a new connection.
 */
export class RedisBackend implements Backend {
  readonly #connect: Connect
  readonly #options: RedisBackendOptions
  readonly #context: RedisBackendContext
  readonly #backoff: Backoff
  readonly #closed = new AbortController()
  readonly #requests: { value: number }
  readonly #latency: Observer
  #connection: RedisConnection | undefined
  /** The server's clock minus the monotonic clock, when the server last replied. */
  #aheadMs: number
  /** The outage of the server. Undefined while the server replies, and before it is first asked. */
  #down: { since: number; failures: number; problem: RedisProblem; nextAt: number | undefined } | undefined
  #loggedProblem = ''
  #foreignLoggedAt = Number.NEGATIVE_INFINITY
  #cancelProbe: (() => void) | undefined
  #waiting: (() => void)[] = []

  constructor(
    connect: Connect,
    options: RedisBackendOptions,
    context: RedisBackendContext,
    random: Random = systemRandom,
  ) {
    const { metrics } = context
    this.#connect = connect
    this.#options = options
    this.#context = context
    this.#aheadMs = context.clock.wall() - context.clock.now()
    this.#backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random)
    const up = 'Whether the server that keeps the buckets of the group replies in time.'
    const [read, shown] = [() => (this.isUp ? 1 : 0), (isUp = 0) => isUp === 0 && 'no server']
    metrics.fact({ name: 'sluice_throttle_backend_up', help: up, read, shown })
    this.#requests = metrics.counter('sluice_throttle_backend_requests_total', 'Round trips to the server.')
    const help = 'How long the server took to reply, in seconds.'
    this.#latency = metrics.histogram('sluice_throttle_backend_duration_seconds', help, LATENCY_BUCKETS)
  }

  get isUp(): boolean {
    return this.#connection !== undefined
  }

  /** Undefined while the server replies, and before it is first asked. The times are on the wall clock. */
  get outage(): ProcessorOutage | undefined {
    if (!this.#down) return undefined
    const { since, failures, problem, nextAt } = this.#down
    const { clock } = this.#context
    const timeOf = (at: number) => new Date(clock.wall() - clock.now() + at).toISOString()
    return {
      reason: problem.text,
      ownReason: problem.kind,
      since: timeOf(since),
      attempts: failures,
      ...(nextAt !== undefined && { next_attempt: timeOf(nextAt) }),
      meanwhile: this.#meanwhile,
    }
  }

  get #meanwhile(): string {
    const { onFailure } = this.#options
    return onFailure ? MEANWHILE[onFailure] : OF_SERVICE
  }

  get #server(): string {
    return this.#options.onFailure ? 'the server of the cluster limit' : 'the server of service.limits.redis'
  }

  /** Connects for the first time. Resolves when the attempt has succeeded or failed. */
  start(): Promise<void> {
    return this.#probe()
  }

  async ask(demands: readonly LeaseDemand[]): Promise<readonly LeaseGrant[] | undefined> {
    const connection = this.#connection
    if (!connection) return undefined
    const begin = this.#context.clock.now()
    try {
      const grants = await this.#execute(connection, demands)
      this.#latency.observe((this.#context.clock.now() - begin) / 1000)
      this.#backoff.reset()
      return grants
    } catch (error) {
      this.#lost(connection, error)
      return undefined
    }
  }

  untilReachable(signal: AbortSignal): Promise<void> {
    if (this.isUp || signal.aborted || this.#closed.signal.aborted) return Promise.resolve()
    return new Promise(resolve => {
      const go = () => {
        signal.removeEventListener('abort', go)
        resolve()
      }
      signal.addEventListener('abort', go, { once: true })
      this.#waiting.push(go)
    })
  }

  close(): void {
    this.#closed.abort()
    this.#cancelProbe?.()
    this.#connection?.destroy()
    this.#connection = undefined
    this.#wake()
  }

  /** Makes one round trip, because it sends all calls before the first reply. */
  async #execute(connection: RedisConnection, demands: readonly LeaseDemand[]): Promise<LeaseGrant[]> {
    const { group, timeoutMs } = this.#options
    const { clock } = this.#context
    const calls = scriptCalls(group, demands, connection.isCluster, clock.now() + this.#aheadMs)
    const grants: LeaseGrant[] = []
    this.#requests.value++
    const ask = async (call: ScriptCall) => readReply(call, demands, await evaluate(connection, call), grants)
    const replies = await inTime(Promise.all(calls.map(ask)), timeoutMs, clock)
    this.#aheadMs = replies[0]!.wall - clock.now()
    this.#foreign(replies.reduce((sum, { foreign }) => sum + foreign, 0))
    return grants
  }

  async #probe(): Promise<void> {
    const { clock } = this.#context
    if (this.#down) this.#down.nextAt = undefined
    let connection: RedisConnection | undefined
    const lost = (error: Error) => connection && this.#lost(connection, error)
    try {
      connection = await connectInTime(this.#connect, lost, clock, this.#closed.signal)
      await this.#execute(connection, [PROBE])
      if (this.#closed.signal.aborted) connection.destroy()
      else this.#reached(connection)
    } catch (error) {
      connection?.destroy()
      this.#failed(error)
    }
  }

  #reached(connection: RedisConnection): void {
    const { log, clock } = this.#context
    this.#connection = connection
    if (this.#down) {
      const seconds = Math.round((clock.now() - this.#down.since) / 100) / 10
      log.info({ seconds }, `${this.#server} replies again`)
    }
    this.#down = undefined
    this.#loggedProblem = ''
    this.#wake()
  }

  #lost(connection: RedisConnection, error: unknown): void {
    if (this.#connection !== connection) return
    this.#connection = undefined
    connection.destroy()
    this.#failed(error)
  }

  #failed(error: unknown): void {
    if (this.#closed.signal.aborted) return
    const { clock } = this.#context
    const problem = redisProblem(error, this.#options.passwords?.(), PERMISSIONS)
    this.#count(problem.kind)
    this.#log(problem)
    const waitMs = problem.kind === 'denied' ? DENIED_WAIT_MS : Math.max(FIRST_WAIT_MS / 4, this.#backoff.next())
    const now = clock.now()
    const { since = now, failures = 0 } = this.#down ?? {}
    this.#down = { since, failures: failures + 1, problem, nextAt: now + waitMs }
    this.#cancelProbe?.()
    this.#cancelProbe = clock.after(waitMs, () => void this.#probe())
  }

  #count(reason: string): void {
    const help = 'Failures of the server or of the way to it, by reason.'
    this.#context.metrics.counter('sluice_throttle_backend_failures_total', help, { reason }).value++
  }

  /** Counts and logs buckets whose keys held data of another program. The script has already replaced this data. */
  #foreign(keys: number): void {
    if (keys === 0) return
    this.#count('foreign')
    const now = this.#context.clock.now()
    if (now < this.#foreignLoggedAt + LOG_EVERY_MS) return
    this.#foreignLoggedAt = now
    this.#context.log.error({ ...CODE, reason: 'foreign', keys }, FOREIGN)
  }

  /** Logs a problem once for each outage, and once more whenever the reason of the outage changes. */
  #log({ kind, text }: RedisProblem): void {
    if (this.#loggedProblem === kind) return
    this.#loggedProblem = kind
    const { onFailure } = this.#options
    const meanwhile = onFailure ? 'applying on_backend_failure' : OF_SERVICE
    this.#context.log.error(
      { ...CODE, reason: kind, error: text, ...(onFailure && { on_backend_failure: onFailure }) },
      `cannot ask ${this.#server}; ${meanwhile} until it replies`,
    )
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const go of waiting) go()
  }
}

async function evaluate(connection: RedisConnection, { keys, args }: ScriptCall): Promise<unknown> {
  const rest = [String(keys.length), ...keys, ...args]
  try {
    return await connection.command(keys[0]!, ['EVALSHA', SHA, ...rest])
  } catch (error) {
    // The server is new or was restarted, and does not know the script.
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return connection.command(keys[0]!, ['EVAL', SCRIPT, ...rest])
  }
}
