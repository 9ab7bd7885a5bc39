import type { Server, Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import { PIECES, recordSplitter } from '../../core/options/multiline-options.js'
import { Sends } from '../../core/sends.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { withoutLines } from '../../lib/lines/without-lines.js'
import { LogLimit } from '../../lib/log-limit.js'
import { SharedReadServer } from '../../lib/network/shared-reads.js'
import { aborted } from '../../lib/time.js'
import { Listener, peerOf } from '../../net/listen.js'
import { readConnection } from './connection.js'
import { framerOf, RecordFramer } from './framer.js'
import type { Framer } from './octet-splitter.js'
import type { TcpSourceOptions } from './options.js'

/**
 * Maximum bytes of all unfinished messages together. If there are more, messages larger than LARGE_PENDING_BYTES are
 * delivered unfinished, the largest first.
 */
const MOST_PENDING_BYTES = 32 * 1024 * 1024
const LARGE_PENDING_BYTES = 64 * 1024

export class TcpSource implements Source {
  readonly once = true
  readonly #options: TcpSourceOptions
  readonly #context: SourceContext
  readonly #listener: Listener
  readonly #pieces: { value: number }
  readonly #broken: { value: number }
  readonly #logLimit: LogLimit
  /**
   * For each open connection: a promise that settles when the connection ends, and the controller that ends the
   * connection.
   */
  readonly #reading = new Map<Promise<void>, AbortController>()
  /** Batches that are being sent. While one of these batches waits for room, reading pauses. */
  readonly #sends: Sends
  #pending = 0
  /** Framers whose unfinished message exceeds LARGE_PENDING_BYTES. The value is a function delivering this message. */
  readonly #large = new Map<Framer, () => void>()

  constructor(options: TcpSourceOptions, context: SourceContext) {
    this.#options = options
    this.#context = context
    this.#listener = new Listener(options, context)
    const { metrics, log } = context
    this.#sends = new Sends(error => {
      metrics.failed('bug')
      log.error({ error: errorText(error) }, 'cannot pass on the data of a connection')
    })
    this.#logLimit = new LogLimit(context.clock)
    this.#pieces = metrics.counter(...PIECES)
    this.#broken = metrics.counter(
      'sluice_framing_errors_total',
      'Messages that have an invalid length or were cut off. Their bytes are delivered as lines; bytes of records are discarded.',
    )
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    try {
      await this.#listener.open(this.#options.listen, tls => {
        const serve = (socket: Socket | TLSSocket) => this.#serve(socket, out)
        if (!tls) return new SharedReadServer(serve)
        return createTlsServer(tls, serve) as Server
      })
      await aborted(signal)
    } finally {
      this.#listener.stopAccepting()
      for (const leave of this.#reading.values()) leave.abort()
      await Promise.all(this.#reading.keys())
      this.#listener.close()
    }
  }

  async stop(): Promise<void> {
    this.#listener.close()
  }

  #serve(socket: Socket, out: Output): void {
    const { log, metrics } = this.#context
    const peer = peerOf(socket)
    const leave = new AbortController()
    this.#listener.watch(socket)
    const served = this.#read(socket, peer, out, leave.signal)
      .catch(error => {
        metrics.failed('bug')
        log.error({ peer, error: errorText(error) }, 'connection failed; closing it')
      })
      .finally(() => {
        socket.destroy()
        this.#reading.delete(served)
      })
    this.#reading.set(served, leave)
  }

  async #read(socket: Socket, peer: string | undefined, out: Output, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#context
    const { idle_timeout: idleMs, decode, max_line_bytes: maxLineBytes } = this.#options
    const framing = this.#options.framing ?? (decode.definition.mayBeCounted ? 'auto' : 'newline')
    const tidy = decode.flatten?.bind(decode)
    const endsWithNull = decode.definition.endsWithNull === true
    const framer = decode.framing
      ? new RecordFramer(recordSplitter(decode.framing, maxLineBytes, this.#context.metrics))
      : framerOf({ framing, maxLineBytes, endsWithNull, tidy })
    const origin: Origin = { ...this.#context.origin(decode), ...(peer === undefined ? {} : { peer }) }
    const counted = { pending: 0, pieces: 0, broken: 0 }
    const giveUp = () => {
      const piece = framer.flush()
      if (piece) this.#send(piece, origin, out)
      this.#count(framer, counted)
    }
    const why = await readConnection(
      {
        socket,
        framer,
        clock,
        idleMs,
        room: () => this.#sends.room,
        take: frame => {
          this.#listener.connections.received(socket)
          this.#send(frame, origin, out)
        },
        pendingChanged: () => {
          this.#count(framer, counted)
          if (framer.pending > LARGE_PENDING_BYTES) this.#large.set(framer, giveUp)
          else this.#large.delete(framer)
          while (this.#pending > MOST_PENDING_BYTES && this.#large.size > 0) this.#giveUpLargest()
        },
      },
      signal,
    ).finally(() => {
      framer.drop()
      this.#large.delete(framer)
      this.#count(framer, counted)
    })
    log.debug({ peer, why }, 'connection ended')
    const { problem, cutOff } = framer
    if (!problem && !cutOff) return
    const limited = this.#logLimit.next(problem ? 'framing' : 'cut off')
    if (!limited) return
    const fields = { peer, code: 'SLUICE_FRAMING', error: errorText(problem ?? cutOff), ...limited }
    log.warn(fields, problem ? 'closed a connection that cannot be read' : 'a connection ended within a record')
  }

  /** Adds to the totals how much the framer's counts changed since the last call. */
  #count(framer: Framer, counted: { pending: number; pieces: number; broken: number }): void {
    const { pending, pieces, broken } = framer
    this.#pending += pending - counted.pending
    this.#pieces.value += pieces - counted.pieces
    this.#broken.value += broken - counted.broken
    Object.assign(counted, { pending, pieces, broken })
  }

  /**
   * Delivers the largest unfinished message of all senders. If the current sender's message were delivered instead,
   * other senders could keep the memory full, and every later long message would be divided.
   */
  #giveUpLargest(): void {
    const [largest] = [...this.#large].sort(([one], [other]) => other.pending - one.pending)
    const [framer, giveUp] = largest!
    this.#large.delete(framer)
    giveUp()
  }

  /** Sends the batch without waiting. If the batch has to wait for room, reading pauses. Skips empty messages. */
  #send(messages: Frame, origin: Origin, out: Output): void {
    const skips = !origin.codec.framing && hasEmpty(messages)
    const frame = skips ? withoutLines(messages, (_, start, end) => start === end) : messages
    if (frame.length === 0) {
      frame.release?.()
      return
    }
    const ack = out.ack(status => {
      if (status === 'errored') this.#context.metrics.failed('undelivered')
    })
    this.#sends.add(out.send(new EventBatch(frame, origin, this.#context.clock.wall(), ack)))
  }
}

/** Whether a message is empty, which is rare. Finds out faster than `withoutLines`. */
function hasEmpty({ length, starts, ends }: Frame): boolean {
  for (let i = 0; i < length; i++) if (starts[i] === ends[i]) return true
  return false
}
