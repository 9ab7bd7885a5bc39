import { Codec } from '../../core/codec.js'
import { codecOf } from '../../core/codecs/list.js'
import { Ack, type OnSettled } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { parseFieldPath } from '../../core/event/field-path.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { MODIFIED } from '../../core/event/flags.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { jsonText } from '../../lib/formats/json-text.js'
import { type Frame, LineSplitter } from '../../lib/lines/line-splitter.js'

export interface BatchOptions {
  /** The codec, its name, or its name with options. */
  readonly decode?: Codec | string | { readonly codec: string; readonly [option: string]: unknown }
  /** The names that readers of this batch want. Create the readers first. */
  readonly wanted?: WantedNames
  readonly path?: string
  readonly host?: string
  readonly source?: string
  readonly peer?: string
  readonly receivedAt?: number
  /** Longer lines are divided. */
  readonly maxLineBytes?: number
  /** Whether the last line has no line end. */
  readonly unterminated?: boolean
  readonly onSettled?: OnSettled
  readonly onShrink?: (bytes: number) => void
  readonly isBacklog?: boolean
}

/**
 * Returns a batch of lines in its own chunk. An LF is added to each line; end a line with \r to get CRLF. An object
 * becomes its JSON.
 */
export function batchOf(lines: readonly (string | Buffer | object)[], options: BatchOptions = {}): EventBatch {
  const { decode = 'json', host = 'test-host', source = 'test', receivedAt = 0, wanted = new WantedNames() } = options
  const origin = {
    source,
    host,
    codec: decode instanceof Codec ? decode : codecNamed(decode),
    wanted,
    ...(options.path === undefined ? {} : { path: options.path }),
    ...(options.peer === undefined ? {} : { peer: options.peer }),
  }
  const ack = new Ack(options.onSettled ?? (() => {}), options.onShrink)
  return new EventBatch(frameOf(lines, options), origin, receivedAt, ack, options.isBacklog)
}

function codecNamed(decode: string | { readonly codec: string }): Codec {
  const { codec: name, ...options } = typeof decode === 'string' ? { codec: decode } : decode
  return codecOf(name, options)!
}

function frameOf(lines: readonly (string | Buffer | object)[], options: BatchOptions): Frame {
  const bytes = Buffer.concat(lines.flatMap(line => [bytesOf(line), LF]))
  const splitter = new LineSplitter(options.maxLineBytes ?? 2 ** 30)
  if (!options.unterminated) return splitter.push(bytes) ?? EMPTY_FRAME
  if (bytes.subarray(0, -1).includes(0x0a)) throw new Error('only a single line may be unterminated')
  splitter.push(bytes.subarray(0, -1))
  return splitter.flush() ?? EMPTY_FRAME
}

const LF = Buffer.from('\n')

function bytesOf(line: string | Buffer | object): Buffer {
  if (Buffer.isBuffer(line)) return line
  return Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))
}

const EMPTY_FRAME: Frame = {
  chunk: Buffer.alloc(0),
  length: 0,
  starts: new Int32Array(0),
  ends: new Int32Array(0),
  flags: new Uint8Array(0),
  bytes: 0,
}

export function fieldReaderOf(path: string, wanted: WantedNames): FieldReader {
  return new FieldReader(parseFieldPath(path), wanted)
}

/** The current text of the batch's events: the line as read, or a modified event's JSON. */
export function linesOf(batch: EventBatch): string[] {
  return Array.from({ length: batch.length }, (_, i) =>
    batch.flags[i]! & MODIFIED
      ? jsonText(batch.fields(i))
      : batch.chunk.toString('utf8', batch.starts[i], batch.ends[i]),
  )
}
