import { fstatSync } from 'node:fs'
import { z } from 'zod'
import { type Encoded, type Encoding, encodeLines, RawEncoder } from '../../core/codecs/encode.js'
import { encodingOption } from '../../core/codecs/options.js'
import { type Destination, type DestinationContext, defineDestination } from '../../core/component.js'
import { DeliveryError, errorCode, errorText } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { LOCAL_DEFAULTS } from '../../core/options/delivery-options.js'
import { aborted } from '../../lib/time.js'
import { inTurn } from '../../lib/turns.js'
import { calls, type FileCalls } from '../file/appended-file.js'

const options = z.strictObject({
  encoding: encodingOption('raw'),
})

const NEWLINE = Buffer.from('\n')
const LF = 0x0a

export class Stdout implements Destination {
  readonly #stream: NodeJS.WritableStream
  readonly #os: Pick<FileCalls, 'writev'>
  /** The descriptor, if standard output was redirected to a regular file. */
  readonly #file: number | undefined
  readonly #encoding: Encoding
  #raw = new RawEncoder()
  /** Whether a failed write left part of a line in the file. */
  #torn = false

  constructor(
    { encoding }: z.output<typeof options>,
    { stdout, writes }: DestinationContext,
    os: Pick<FileCalls, 'writev'> = calls,
  ) {
    this.#stream = stdout
    this.#os = os
    this.#encoding = encoding
    const { fd } = stdout as { fd?: number }
    const stats = fd === undefined ? undefined : fstatSync(fd, { bigint: true })
    if (stats?.isFile()) {
      this.#file = fd
      writes?.(stats)
    } else letWait(stdout)
  }

  async write(request: readonly EventBatch[], signal: AbortSignal): Promise<void> {
    const fd = this.#file
    // If the disk becomes full during a write, the stream of a file does not report that only a part was written.
    if (fd !== undefined) return await inTurn('stdout', () => this.#append(fd, request))
    try {
      await this.#send(request)
    } catch (error) {
      // If the reader of standard output is gone, a retry is useless. Waits until this error has ended the run.
      if (error instanceof Error && errorCode(error.cause) === 'EPIPE') await aborted(signal)
      throw error
    }
  }

  #encoded(request: readonly EventBatch[], raw: RawEncoder): Encoded {
    return this.#encoding === 'raw' ? raw.encode(request) : encodeLines(this.#encoding, request)
  }

  #send(request: readonly EventBatch[]): Promise<void> {
    const { parts } = this.#encoded(request, this.#raw)
    return new Promise((resolve, reject) => {
      // The callback of the last part runs after all parts are processed. It reports one error, which is enough.
      const written = (error?: Error | null) => (error ? reject(failure(error, 'write')) : resolve())
      parts.forEach((part, i) => {
        this.#stream.write(part, i === parts.length - 1 ? written : undefined)
      })
      if (parts.length === 0) resolve()
    })
  }

  /**
   * Appends to a file. The bytes of a failed write stay in the file. So the next attempt first ends the torn line, and
   * then writes all events again.
   */
  async #append(fd: number, request: readonly EventBatch[]): Promise<void> {
    const raw = this.#torn ? new RawEncoder() : this.#raw.copy()
    const { parts } = this.#encoded(request, raw)
    if (this.#torn) parts.unshift(NEWLINE)
    const { failed, last } = await writeAll(fd, parts, this.#os)
    if (last !== undefined) this.#torn = last !== LF
    if (failed) throw failure(failed, (errorCode(failed) ?? 'write').toLowerCase())
    this.#torn = false
    this.#raw = raw
  }
}

/** Writes all parts, or returns the error if a write fails. `last`: the last written byte, to detect a torn line. */
async function writeAll(
  fd: number,
  parts: readonly Buffer[],
  os: Pick<FileCalls, 'writev'>,
): Promise<{ failed?: Error; last?: number }> {
  const left = [...parts]
  let last: number | undefined
  try {
    while (left.length > 0) {
      let { bytesWritten } = await os.writev(fd, left)
      if (bytesWritten === 0) throw new Error('no bytes were written')
      while (left.length > 0 && bytesWritten >= left[0]!.length) {
        const part = left.shift()!
        bytesWritten -= part.length
        last = part.at(-1)
      }
      if (bytesWritten > 0) {
        last = left[0]![bytesWritten - 1]
        left[0] = left[0]!.subarray(bytesWritten)
      }
    }
    return { ...(last !== undefined && { last }) }
  } catch (error) {
    return { failed: error as Error, ...(last !== undefined && { last }) }
  }
}

function failure(cause: Error, reason: string): DeliveryError {
  const hint = reason === 'enospc' ? ': free some space' : ''
  const message = `cannot write to standard output${hint} (${errorText(cause)})`
  return new DeliveryError(message, { failure: 'retry', reason, cause })
}

/**
 * Makes writes to a terminal non-blocking. By default, a terminal that does not accept output, for example after
 * Ctrl-S, would block the whole process, including signals.
 */
function letWait(stream: NodeJS.WritableStream): void {
  const { isTTY, _handle: handle } = stream as { isTTY?: boolean; _handle?: { setBlocking?(on: boolean): unknown } }
  if (isTTY) handle?.setBlocking?.(false)
}

export const stdout = defineDestination({
  type: 'stdout',
  summary: 'Writes events to standard output.',
  options,
  examples: [{ title: 'Every event as JSON', yaml: 'encoding: json\n' }],
  delivery: LOCAL_DEFAULTS,
  copiesLines: ({ encoding }) => encoding === 'raw',
  create: (options, context) => new Stdout(options, context),
  explains: async () => {
    const { explainAlone } = await import('../../core/explain.js')
    return { explain: ({ encoding }) => explainAlone(encoding, () => 'to standard output') }
  },
})
