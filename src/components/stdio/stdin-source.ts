import { fstatSync, ReadStream, read } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { EventBatch } from '../../core/event/batch.js'
import type { Origin } from '../../core/event/origin.js'
import { PIECES, Splitting } from '../../core/options/multiline-options.js'
import { Sends } from '../../core/sends.js'
import { portionAfter } from '../../lib/lines/chunk-pool.js'
import type { Frame, LineSplitter } from '../../lib/lines/line-splitter.js'
import { pushPortion } from '../../lib/lines/portions.js'
import { SharedReadSocket, SOCKET_READ_BYTES } from '../../lib/network/shared-reads.js'
import { REFUSED, StreamReader } from '../../lib/network/stream-reader.js'
import type { StdinOptions } from './options.js'

const readFile = promisify(read)

export class StdinSource implements Source {
  readonly once = true
  readonly #context: SourceContext
  readonly #origin: Origin
  readonly #pieces: { value: number }
  readonly #splitting: Splitting
  readonly #splitter: LineSplitter
  /** Batches that are being sent. While one of these batches waits for room, reading pauses. */
  readonly #sends: Sends
  #fault: Error | undefined
  /** Number of pieces of `#splitter` already in `#pieces`. `#pieces` may also have pieces of an earlier source. */
  #counted = 0

  constructor(options: StdinOptions, context: SourceContext) {
    this.#context = context
    this.#origin = context.origin(options.decode)
    this.#pieces = context.metrics.counter(...PIECES)
    this.#splitting = new Splitting(options, context.metrics)
    this.#splitter = this.#splitting.splitter()
    this.#sends = new Sends(error => {
      this.#fault = error as Error
    })
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const splitter = this.#splitter
    const { stdin } = this.#context
    const file = fileOf(stdin)
    let error: Error | null = null
    if (file === undefined) error = await this.#readStream(out, signal)
    else await this.#readFile(file, out, signal)
    // Standard input cannot be read again, so an unfinished line or event is delivered as it is.
    this.#send(out, splitter.flush())
    if (splitter.pending > 0) this.#reportRest(splitter)
    splitter.drop()
    await this.#room()
    if (error) throw error
  }

  /** Resolves with the error that ended the stream, if any. */
  async #readStream(out: Output, signal: AbortSignal): Promise<Error | null> {
    const splitter = this.#splitter
    const pipe = pipeOf(this.#context.stdin)
    const stream = pipe ?? this.#context.stdin
    const take = (bytes: Buffer): number => {
      if (this.#fault) throw this.#fault
      const taken = pushPortion(splitter, bytes, frame => this.#send(out, frame))
      return splitter.problem ? REFUSED : taken
    }
    const reader = new StreamReader(stream, { take, room: () => this.#sends.room })
    const idleMs = () => (splitter.pending > 0 ? this.#splitting.patienceMs(splitter.inLine) : undefined)
    try {
      while ((await reader.read({ signal, idleMs })) === 'idle') this.#send(out, splitter.flush())
    } finally {
      await reader.release()
      pipe?.destroy()
    }
    return stream.errored
  }

  async #readFile(file: number, out: Output, signal: AbortSignal): Promise<void> {
    const splitter = this.#splitter
    while (!splitter.problem && !signal.aborted) {
      const size = portionAfter(splitter.pending, SOCKET_READ_BYTES)
      const { bytesRead } = await readFile(file, splitter.reserve(size), 0, size, null)
      if (bytesRead === 0) return
      this.#send(out, splitter.commit(bytesRead))
      await this.#room()
    }
  }

  async #room(): Promise<void> {
    while (this.#sends.room) await this.#sends.room
    if (this.#fault) throw this.#fault
  }

  /** Reports that a record is not delivered, because its bounds are unknown or the input ended within the record. */
  #reportRest({ problem, pending }: LineSplitter): void {
    const { metrics, log } = this.#context
    metrics.failed('framing')
    const fields = { code: 'SLUICE_FRAMING', error: problem?.message ?? 'the last record does not end', bytes: pending }
    log.error(fields, 'cannot read standard input to its end')
  }

  #send(out: Output, frame: Frame | undefined): void {
    if (!frame) return
    const { pieces } = this.#splitter
    this.#pieces.value += pieces - this.#counted
    this.#counted = pieces
    const ack = out.ack(status => {
      if (status === 'errored') this.#context.metrics.failed('undelivered')
    })
    this.#sends.add(out.send(new EventBatch(frame, this.#origin, this.#context.clock.wall(), ack)))
  }
}

/** When a socket on this descriptor is closed, libuv leaves the descriptor open. */
const STANDARD_INPUT = 0

type Described = Readable & { readonly fd?: unknown; readonly isTTY?: boolean }

/** If standard input is a file that was not read yet, returns its descriptor. `stdin`: the stream of Node.js. */
function fileOf(stdin: Readable): number | undefined {
  const isUnread = stdin instanceof ReadStream && stdin.bytesRead === 0
  return isUnread && isStandardInput(stdin) && fstatSync(STANDARD_INPUT).isFile() ? STANDARD_INPUT : undefined
}

/**
 * If standard input is an unread pipe or socket, returns a new socket for it. The new socket does not allocate a buffer
 * for each read. After the caller has destroyed the new socket, another can be created.
 */
function pipeOf(stdin: Readable): SharedReadSocket | undefined {
  const isUnread = stdin instanceof Socket && !stdin.destroyed && stdin.bytesRead === 0
  if (!isUnread || !isStandardInput(stdin) || (stdin as Described).isTTY) return undefined
  return new SharedReadSocket({ fd: STANDARD_INPUT, writable: false })
}

function isStandardInput(stdin: Described): boolean {
  return stdin.fd === STANDARD_INPUT
}
