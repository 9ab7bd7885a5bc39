import { addEscaped, type ByteSink } from '../../lib/formats/json-string.js'
import { Codec, defineCodec, NO_OPTIONS } from '../codec.js'
import type { EventBatch } from '../event/batch.js'
import type { Fields } from '../event/event-fields.js'
import { INVALID, MODIFIED } from '../event/flags.js'
import { OriginTail } from '../event/origin-tail.js'
import { fieldText } from './field-text.js'

const MESSAGE = Buffer.from('{"message":"')
const QUOTE = Buffer.from('"')

class Text extends Codec {
  readonly #tail = new OriginTail()

  constructor() {
    super(textCodec)
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
    const tail = this.#tail.of(batch, flags)
    to.add(MESSAGE, 0, MESSAGE.length)
    addEscaped(to, batch.chunk, batch.starts[i]!, batch.ends[i]!)
    to.add(QUOTE, 0, 1)
    to.add(tail, 0, tail.length)
  }
}

export const textCodec = defineCodec({
  name: 'text',
  summary: 'Each line is text, which becomes `.message`.',
  notes: 'A byte order mark at the beginning of a file, stream or request is not part of the first line.',
  options: NO_OPTIONS,
  form: 'message',
  expects: 'text',
  undecodedHelp: 'Always 0: every line is text.',
  joinsLines: true,
  encoder: fieldText,
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
export const TEXT_LINES: Codec = textCodec.create({} as never)
