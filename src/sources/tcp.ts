import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { z } from 'zod'
import { decodeOption } from '../codecs/options.js'
import { defineSource, type Output, type Source, type SourceContext } from '../core/component.js'
import { errorText } from '../core/errors.js'
import { EventBatch } from '../core/event/batch.js'
import { fieldsOfLines } from '../core/event/event-fields.js'
import type { Origin } from '../core/event/origin.js'
import { PIECES } from '../core/options/multiline-options.js'
import { byteSize, duration } from '../core/options/options.js'
import { Listener, listenOptions, peerOf } from '../http/server/listener.js'
import type { Frame } from '../lib/lines/line-splitter.js'
import { aborted } from '../lib/time.js'
import { readConnection } from './tcp/connection.js'
import { type Framer, framerOf } from './tcp/framer.js'

const options = z.strictObject({
  ...listenOptions,
  framing: z
    .enum(['newline', 'octet_counted', 'auto'])
    .optional()
    .describe(
      'How messages are delimited. newline: each ends with a line end. octet_counted: each is preceded by its length (RFC 6587). auto: octet_counted if the first bytes of a connection are a length, a space and "<", otherwise newline. Default: auto with `decode: syslog`, otherwise newline.',
    ),
  decode: decodeOption(),
  max_line_bytes: byteSize(1024, 256 * 1024 * 1024)
    .prefault('1MiB')
    .describe('A longer message is delivered in pieces marked `partial`.'),
  idle_timeout: duration()
    .optional()
    .describe(
      'Closes connections that have been idle for this long. Default: never, because many senders are quiet for hours, and some lose what they first write to a closed connection. Peers that disappear without closing the connection are detected in any case.',
    ),
})
type Options = z.output<typeof options>

/** Limit for all unfinished messages. Beyond it, those above LARGE are delivered unfinished, the largest first. */
const MOST_PENDING_BYTES = 32 * 1024 * 1024
const LARGE_PENDING_BYTES = 64 * 1024

class TcpSource implements Source {
  readonly once = true
  readonly #options: Options
  readonly #context: SourceContext
  readonly #listener: Listener
  readonly #pieces: { value: number }
  readonly #broken: { value: number }
  /** Connections being read, with the controller that ends each. */
  readonly #reading = new Map<Promise<void>, AbortController>()
  /** Reading pauses while a batch waits for room. */
  #waiting: Promise<void> | undefined
  #pending = 0
  /** Connections with a large unfinished message, with the function that delivers it. */
  readonly #large = new Map<Framer, () => void>()

  constructor(options: Options, context: SourceContext) {
    this.#options = options
    this.#context = context
    this.#listener = new Listener(options, context)
    const { metrics } = context
    this.#pieces = metrics.counter(...PIECES)
    this.#broken = metrics.counter(
      'sluice_framing_errors_total',
      'Messages with an invalid length, or that were cut off. Their bytes are delivered as lines.',
    )
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    try {
      await this.#listener.open(tls => {
        const serve = (socket: Socket | TLSSocket) => this.#serve(socket, out)
        if (!tls) return createServer(serve)
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
    const framer = framerOf({ framing, maxLineBytes, tidy })
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
        room: async () => {
          while (this.#waiting) await this.#waiting
        },
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
    )
    log.debug({ peer, why }, 'connection ended')
  }

  /** Adds the changes since the last call to the totals. */
  #count(framer: Framer, counted: { pending: number; pieces: number; broken: number }): void {
    const { pending, pieces, broken } = framer
    this.#pending += pending - counted.pending
    this.#pieces.value += pieces - counted.pieces
    this.#broken.value += broken - counted.broken
    Object.assign(counted, { pending, pieces, broken })
  }

  /**
   * Delivers the largest unfinished message. Choosing that of the current sender would let others fill the memory and
   * cause every later long message to be divided.
   */
  #giveUpLargest(): void {
    const [largest] = [...this.#large].sort(([one], [other]) => other.pending - one.pending)
    const [framer, giveUp] = largest!
    this.#large.delete(framer)
    giveUp()
  }

  /** Sends without waiting; reading pauses until there is room for more. */
  #send(frame: Frame, origin: Origin, out: Output): void {
    const ack = out.ack(status => {
      if (status === 'errored') this.#context.metrics.failed('undelivered')
    })
    const sent = out.send(new EventBatch(frame, origin, this.#context.clock.wall(), ack))
    const all = this.#waiting ? Promise.all([this.#waiting, sent]).then(() => {}) : sent
    const waiting = all.finally(() => {
      if (this.#waiting === waiting) this.#waiting = undefined
    })
    this.#waiting = waiting
  }
}

export const tcp = defineSource({
  type: 'tcp',
  summary: 'Receives lines and syslog messages over TCP, with or without TLS.',
  notes:
    'TCP has no response that confirms the delivery of a message. Messages that were read and not delivered are lost if the process is killed, and so are messages in transit when a connection breaks. If that matters, use the http source or a file. Messages are read only as fast as they are passed on, so senders wait while a destination does. At the end of the run, connections are half-closed to notify senders. Messages in transit are still read, and so is what senders continue with for up to two seconds; all of it is delivered.\n\nEvents have `.peer`, the address of the sender, unless they are JSON objects. A counted message may have several lines: under `encoding: raw` it is written as it came.\n\nA message that is not finished when its connection ends is delivered as it is.',
  options,
  examples: [
    {
      title: 'Syslog from the network, over TLS',
      yaml: 'listen: 0.0.0.0:6514\ndecode: syslog\ntls: { cert_file: /etc/sluice/cert.pem, key_file: /etc/sluice/key.pem, client_ca_file: /etc/sluice/clients.pem }\n',
    },
    { title: 'JSON lines from programs on this machine', yaml: 'listen: 127.0.0.1:5170\ndecode: json\n' },
  ],
  fields: ({ decode }) => fieldsOfLines(decode, ['peer']),
  create: (options, context) => new TcpSource(options, context),
})
