import type { Socket } from 'node:net'
import type { Output, SourceContext } from '../core/component.js'
import { errorFields } from '../core/errors.js'
import type { AckStatus } from '../core/event/ack.js'
import { Sends } from '../core/sends.js'
import { LogLimit } from '../lib/log-limit.js'
import { networkOf } from '../lib/network/network-address.js'
import { aborted, sleep, within } from '../lib/time.js'
import { type Lease, RequestMemory } from './http/server/quota.js'
import { LoggedRefusal, notDelivered, overloaded, type Refusal, stopping } from './http/server/refusal.js'
import { addressTest, Listener, type ListenerOptions, peerOf, perAddress } from './listen.js'

/** While events wait for room this long, further requests are refused. */
const ROOM_MS = 1000
/** Maximum time for sending responses after all events are settled, in milliseconds. */
const LEAVE_MS = 1000

export interface IntakeOptions extends ListenerOptions {
  readonly max_unsettled_bytes: number
  readonly headers_timeout: number
  readonly send_timeout: number
}

/** A request that is answered when its events are settled. */
export interface OpenRequest {
  readonly socket: Socket
  /** Resolves when the answer was sent, or the client has left. */
  readonly closed: Promise<void>
  /** Refuses the request, unless its body was already read. */
  refuse(refusal: Refusal): void
}

/** The outcome of a request whose events were passed on. */
export interface PassedOn<R> {
  readonly result: R
  /** Resolves with the worst status of the events. */
  readonly settled: Promise<AckStatus>
}

/**
 * What sources have in common that answer their senders: where they listen, the limits of connections, requests and
 * memory, an answer only when the events are settled, an orderly end, and what they count and log.
 */
export class Intake {
  readonly listener: Listener
  readonly #context: SourceContext
  readonly #memory: RequestMemory
  readonly #isShared: (address: string) => boolean
  readonly #logLimit: LogLimit
  /** Requests without a response. */
  readonly #open = new Set<OpenRequest>()
  readonly #receiving = new Set<Promise<unknown>>()
  readonly #sends = new Sends(() => {})

  constructor(options: IntakeOptions, context: SourceContext) {
    this.#context = context
    this.listener = new Listener(options, context, options)
    const { max_connections: most, max_connections_per_address: own, shared_addresses: shared } = options
    this.#memory = new RequestMemory(most, options.max_unsettled_bytes, perAddress(most, own))
    this.#isShared = addressTest(shared)
    this.#logLimit = new LogLimit(context.clock)
    const { metrics } = context
    const help = 'Memory held by unanswered requests, in bytes.'
    metrics.gauge('sluice_http_unanswered_bytes', help, () => this.#memory.bytes)
    metrics.gauge('sluice_http_unanswered_requests', 'Unanswered requests.', () => this.#memory.requests)
  }

  /** Runs until the signal aborts. `open` makes the listener listen. */
  async run(open: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await open()
      await aborted(signal)
    } finally {
      this.listener.stopAccepting()
      // Refuses requests whose body is incomplete. The other requests are answered when their events are settled.
      for (const request of this.#open) request.refuse(stopping())
      await Promise.allSettled(this.#receiving)
    }
  }

  async stop(): Promise<void> {
    const answered = [...this.#open].map(({ closed }) => closed)
    await Promise.race([Promise.all(answered), sleep(LEAVE_MS)])
    this.listener.close()
  }

  /** Call it when the headers of a request are handled. */
  begin(request: OpenRequest): void {
    this.#open.add(request)
    void request.closed.then(() => this.#open.delete(request))
  }

  /** Like `out`. `room` then waits for what was sent to it. */
  watched(out: Output): Output {
    return {
      ...out,
      ack: onSettled => out.ack(onSettled),
      send: batch => {
        const sent = out.send(batch)
        this.#sends.add(sent)
        return sent
      },
    }
  }

  /** Resolves when the next components have room for events. Throws a Refusal if that takes long. */
  async room(): Promise<void> {
    const { room } = this.#sends
    if (
      room &&
      !(await within(
        ROOM_MS,
        room.then(() => true),
      ))
    )
      throw overloaded()
  }

  /**
   * Gives a request its share of the memory, and resolves when its events are settled. Throws a Refusal if there is no
   * room, or an event was not delivered. `receive` resolves when all events are passed on; `run` waits for it.
   */
  async take<R>(request: OpenRequest, receive: (lease: Lease) => Promise<PassedOn<R>>): Promise<R> {
    const peer = peerOf(request.socket) ?? ''
    const sender = this.#isShared(peer) ? request : networkOf(peer)
    const lease = this.#memory.lease({ sender, refuse: refusal => request.refuse(refusal) })
    try {
      const receiving = receive(lease)
      this.#receiving.add(receiving)
      const { result, settled } = await receiving.finally(() => this.#receiving.delete(receiving))
      if ((await settled) === 'errored') throw notDelivered()
      return result
    } finally {
      lease.release()
    }
  }

  /** Logs a refused request. */
  refused(socket: Socket, error: Pick<Refusal, 'code' | 'message'> & { readonly status?: number }): void {
    if (error instanceof LoggedRefusal) return
    const { code, message, status } = error
    const limited = this.#logLimit.next(code)
    if (!limited) return
    const fields = { peer: peerOf(socket), status, code, error: message, ...limited }
    this.#context.log.warn(fields, 'refused a request')
  }

  failed(error: unknown): void {
    this.#context.metrics.failed('bug')
    this.#context.log.error(errorFields(error), 'request failed')
  }
}
