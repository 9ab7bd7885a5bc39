import { Codec, defineCodec, NO_OPTIONS } from '../core/codec.js'
import type { EventBatch } from '../core/event/batch.js'
import { type Fields, partialMark } from '../core/event/event.js'
import { INVALID, MODIFIED } from '../core/event/flags.js'
import type { Origin } from '../core/event/origin.js'
import { addEscaped, type ByteSink } from '../lib/formats/json-string.js'

const MESSAGE = Buffer.from('{"message":"')

class Text extends Codec {
  #tailOf: Origin | undefined
  #tailTime = 0
  #tailPartial: string | undefined
  #tailBytes = MESSAGE

  constructor() {
    super(text)
  }

  scan(): boolean {
    return true
  }

  fields(b: Buffer, start: number, end: number): Fields {
    return { message: b.toString('utf8', start, end) }
  }

  override writeEvent(batch: EventBatch, i: number, to: ByteSink): void {
    const flags = batch.look(i)
    if (flags & (MODIFIED | INVALID)) {
      super.writeEvent(batch, i, to)
      return
    }
    const tail = this.#tail(batch, flags)
    to.add(MESSAGE, 0, MESSAGE.length)
    addEscaped(to, batch.chunk, batch.starts[i]!, batch.ends[i]!)
    to.add(tail, 0, tail.length)
  }

  /** What follows the message, which is the same for every whole line of a batch. */
  #tail({ origin, receivedAt }: EventBatch, flags: number): Buffer {
    const partial = partialMark(flags)
    if (origin === this.#tailOf && receivedAt === this.#tailTime && partial === this.#tailPartial)
      return this.#tailBytes
    const { path: file, peer, host } = origin
    const rest = { file, peer, host, timestamp: new Date(receivedAt).toISOString(), partial }
    this.#tailOf = origin
    this.#tailTime = receivedAt
    this.#tailPartial = partial
    this.#tailBytes = Buffer.from(`",${JSON.stringify(rest).slice(1)}`)
    return this.#tailBytes
  }
}

export const text = defineCodec({
  name: 'text',
  summary: 'Each line is text, which becomes `.message`.',
  options: NO_OPTIONS,
  form: 'message',
  expects: 'text',
  undecodedHelp: 'Always 0: every line is text.',
  joinsLines: true,
  examples: [
    {
      title: 'Any line',
      yaml: '',
      line: 'server started on port 8080',
      event: { message: 'server started on port 8080' },
    },
  ],
  create: () => new Text(),
})

/** For lines in an unknown format. */
export const PLAIN_TEXT: Codec = text.create({} as never)
