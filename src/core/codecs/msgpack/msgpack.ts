import { z } from 'zod'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import type { Framing } from '../../../lib/lines/framed-splitter.js'
import { defineCodec } from '../../codec.js'
import { RecordCodec } from '../record-codec.js'
import { MsgpackJson } from './msgpack-json.js'
import { MsgpackScanner } from './msgpack-scanner.js'
import { MsgpackWriter } from './msgpack-write.js'

const options = z.strictObject({
  binary: z
    .enum(['base64', 'text'])
    .default('base64')
    .describe('How values of the type bin are read. text: as UTF-8, for senders that can write texts only as bin.'),
})

class Msgpack extends RecordCodec {
  readonly framing: Framing
  readonly #json: MsgpackJson
  readonly #writer = new MsgpackWriter()

  constructor({ binary }: z.output<typeof options>) {
    super(msgpack, binary === 'base64' ? {} : { binary })
    const json = new MsgpackJson(binary === 'text')
    this.#json = json
    this.framing = {
      scanner: () => new MsgpackScanner(),
      readRecord: (b, start, end, to) => json.write(b, start, end, to),
    }
  }

  protected readAlone(b: Buffer, start: number, end: number, to: GrowingBytes): boolean {
    return this.#json.write(b, start, end, to)
  }

  protected writeRecord(json: Buffer, start: number, end: number, to: GrowingBytes): void {
    this.#writer.write(json, start, end, to)
  }
}

export const msgpack = defineCodec({
  name: 'msgpack',
  summary: 'Records are maps of MessagePack, one directly after the other, without line ends.',
  notes:
    'The map is the event; no field is added to it. Integers keep all of their digits, and doubles stay doubles: the double 1 is `1.0`. NaN and infinity become null. ' +
    'Binary values become base64, see `binary`. Timestamps, and the EventTime of Fluentd, become text in RFC 3339; other extensions become an object with their type and their bytes: `{"ext":5,"data":"AAE="}`. ' +
    'A key that is not a text is written as text. An entry of Fluentd or Fluent Bit, `[time, map]` or `[[time, metadata], map]`, is read as its map, with its time as `.timestamp` unless the map has this field. ' +
    'A record cannot be read if it is a map with more than 256 levels, a map with a map or an array as a key, or an array that is not an entry. `.message` is then the record in base64.\n\n' +
    'A record of more than `max_line_bytes` is skipped and counted in `sluice_skipped_records_total`. Bytes that cannot begin a record are an error, because Sluice cannot find the records after them. The error names their place. ' +
    'The source `tcp` then closes the connection, `http` answers 400 and accepts no events of the body, `stdin` ends, and `file` stays at this place and reports the error. A record that has not ended waits for its rest, and is read again after a restart.\n\n' +
    'As an encoding: each event becomes a map. Integers stay integers, and all other numbers become doubles. Records follow each other directly. `raw` writes the JSON of the record. ' +
    'Where lines are text, as in `tests` and in the input of `explain`, a record is its JSON; `parse` reads base64.',
  options,
  form: 'object',
  expects: 'a map of MessagePack in base64, or a JSON object',
  undecodedHelp: 'Records that are not maps of MessagePack. They are kept as text in base64.',
  joinsLines: false,
  contentType: 'application/msgpack',
  mediaTypes: ['application/x-msgpack', 'application/vnd.msgpack', 'application/octet-stream'],
  examples: [
    {
      title: 'A map with a timestamp',
      yaml: '',
      record: '83 a3 61 70 70 a4 73 68 6f 70 a4 74 6f 6f 6b 0c a2 61 74 d6 ff 69 7d f1 80',
      line: '{"app":"shop","took":12,"at":"2026-01-31T12:11:44Z"}',
      event: { app: 'shop', took: 12, at: '2026-01-31T12:11:44Z' },
    },
    {
      title: 'Texts of the type bin',
      yaml: 'binary: text\n',
      record: '81 a7 6d 65 73 73 61 67 65 c4 02 68 69',
      line: '{"message":"hi"}',
      event: { message: 'hi' },
    },
  ],
  create: parsed => new Msgpack(parsed),
})
