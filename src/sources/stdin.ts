import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../codecs/options.js'
import { defineSource, type Output, type Source, type SourceContext } from '../core/component.js'
import { EventBatch } from '../core/event/batch.js'
import { fieldsOfLines } from '../core/event/event-fields.js'
import type { Origin } from '../core/event/origin.js'
import { checkSplit, MULTILINE_NOTES, multilineOption, PIECES, Splitting } from '../core/options/multiline-options.js'
import { duration } from '../core/options/options.js'
import { untilReadable } from '../lib/files/until-readable.js'
import type { Frame, LineSplitter } from '../lib/lines/line-splitter.js'

const options = z
  .strictObject({
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption(),
    partial_line_timeout: duration()
      .optional()
      .describe(
        'How long an unfinished line may wait for its rest before it is delivered as it is. Programs that buffer their output pause in the middle of lines. Default: no limit; the last line is delivered when the input ends.',
      ),
    multiline: multilineOption(),
  })
  .superRefine(checkSplit)
type Options = z.output<typeof options>

class Stdin implements Source {
  readonly once = true
  readonly #context: SourceContext
  readonly #origin: Origin
  readonly #pieces: { value: number }
  readonly #splitting: Splitting
  readonly #splitter: LineSplitter
  /** Pieces already added to the counter, which may include those of an earlier source. */
  #counted = 0

  constructor(options: Options, context: SourceContext) {
    this.#context = context
    this.#origin = context.origin(options.decode)
    this.#pieces = context.metrics.counter(...PIECES)
    this.#splitting = new Splitting(options, context.metrics)
    this.#splitter = this.#splitting.splitter()
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    const { stdin } = this.#context
    const splitter = this.#splitter
    while (!splitter.problem) {
      const chunk = stdin.read() as Buffer | string | null
      if (chunk !== null) await this.#send(out, splitter.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk))
      else if (stdin.readableEnded || stdin.destroyed) break
      else if (signal.aborted) break
      else {
        const patienceMs = splitter.pending > 0 ? this.#splitting.patienceMs(splitter.inLine) : Number.POSITIVE_INFINITY
        const idleMs = Number.isFinite(patienceMs) ? patienceMs : undefined
        if ((await untilReadable(stdin, { signal, idleMs })) === 'idle') await this.#send(out, splitter.flush())
      }
    }
    // Standard input cannot be read again, so an unfinished line or event is delivered as it is.
    await this.#send(out, splitter.flush())
    if (splitter.pending > 0) this.#reportRest(splitter)
    if (stdin.errored) throw stdin.errored
  }

  /** A record that cannot be delimited, or that does not end, is not delivered. */
  #reportRest({ problem, pending }: LineSplitter): void {
    const { metrics, log } = this.#context
    metrics.failed('framing')
    const fields = { code: 'SLUICE_FRAMING', error: problem?.message ?? 'the last record does not end', bytes: pending }
    log.error(fields, 'cannot read standard input to its end')
  }

  async #send(out: Output, frame: Frame | undefined): Promise<void> {
    if (!frame) return
    const { pieces } = this.#splitter
    this.#pieces.value += pieces - this.#counted
    this.#counted = pieces
    const ack = out.ack(status => {
      if (status === 'errored') this.#context.metrics.failed('undelivered')
    })
    await out.send(new EventBatch(frame, this.#origin, this.#context.clock.wall(), ack))
  }
}

export const stdin = defineSource({
  type: 'stdin',
  summary: 'Reads standard input; the run ends when it ends.',
  single: 'standard input',
  notes: `A configuration can have one source of this type. Standard input cannot be read again: events that were read and not delivered are lost if the process is killed. ${MULTILINE_NOTES}`,
  options,
  examples: [
    { title: 'JSON lines from a pipe', yaml: 'decode: json\n' },
    { title: 'Stack traces joined to the message before them', yaml: 'multiline: { preset: [java, node] }\n' },
  ],
  fields: ({ decode }) => fieldsOfLines(decode),
  create: (options, context) => new Stdin(options, context),
})
