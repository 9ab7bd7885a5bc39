import { type ByteSink, Codec, defineCodec, NO_OPTIONS, writeJsonLine } from '../core/codec.js'
import type { EventBatch } from '../core/event/batch.js'
import { type Fields, partialMark } from '../core/event/event.js'
import { INVALID, MODIFIED } from '../core/event/flags.js'

const MESSAGE = Buffer.from('{"message":"')

class Text extends Codec {
  constructor() {
    super(text)
  }

  scan(): boolean {
    return true
  }

  fields(b: Buffer, start: number, end: number): Fields {
    return { message: b.toString('utf8', start, end) }
  }

  /** Copies lines whose bytes are valid within a JSON string. */
  override writeJson(batch: EventBatch, to: ByteSink): void {
    // The fields after the message are the same for every whole line of the batch.
    const { origin } = batch
    const rest = JSON.stringify({
      file: origin.path,
      peer: origin.peer,
      host: origin.host,
      timestamp: new Date(batch.receivedAt).toISOString(),
    })
    const tail = Buffer.from(`",${rest.slice(1)}\n`)
    for (let i = 0; i < batch.length; i++) {
      const flags = batch.look(i)
      if (
        flags & (MODIFIED | INVALID) ||
        partialMark(flags) ||
        !isPlainText(batch.chunk, batch.starts[i]!, batch.ends[i]!)
      ) {
        writeJsonLine(batch, i, to)
        continue
      }
      to.add(MESSAGE, 0, MESSAGE.length)
      to.add(batch.chunk, batch.starts[i]!, batch.ends[i]!)
      to.add(tail, 0, tail.length)
    }
  }
}

/** Whether the bytes need no escapes in a JSON string: no quote, backslash or control character. */
function isPlainText(bytes: Buffer, start: number, end: number): boolean {
  for (let p = start; p < end; p++) {
    const byte = bytes[p]!
    if (byte < 0x20 || byte === 0x22 || byte === 0x5c) return false
  }
  return true
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
