import { z } from 'zod'
import { findLinesInKernel } from '../../lib/kernel/find-lines.js'
import { FramedSplitter, type Framing } from '../../lib/lines/framed-splitter.js'
import { continuesWith, endsWith, startsEvent } from '../../lib/lines/line-patterns.js'
import { LineSplitter } from '../../lib/lines/line-splitter.js'
import { PartSplitter } from '../../lib/lines/part-splitter.js'
import { type Joiner, RecordSplitter } from '../../lib/lines/record-splitter.js'
import { LANGUAGES, stackTraces } from '../../lib/lines/stack-traces.js'
import type { Codec } from '../codec.js'
import type { ComponentMetrics } from '../component.js'
import { byteSize, duration, once, refuse, refuseAt, regex } from './options.js'

const FORMS = ['start', 'continue', 'until', 'preset'] as const

export const multilineOption = once(() => {
  return z
    .strictObject({
      start: regex()
        .optional()
        .describe('A matching line begins an event; other lines belong to the event before them.'),
      continue: regex()
        .optional()
        .describe('A matching line belongs to the event before it; other lines begin an event.'),
      until: regex().optional().describe('A matching line ends an event.'),
      preset: z
        .union([z.enum(LANGUAGES), z.array(z.enum(LANGUAGES)).min(1)])
        .optional()
        .describe(
          'Stack traces of the listed languages are joined to the event before them, or form an event of their own. If you know how events begin, `start` is more reliable: it also joins other messages of several lines.',
        ),
      timeout: duration()
        .prefault('1 Seconds')
        .describe(
          'How long an event waits for its next line before it is delivered as it is. If its last line is unfinished, `partial_line_timeout` applies instead.',
        ),
      max_lines: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(1000)
        .describe('An event with more lines is delivered in pieces marked `partial`.'),
      max_bytes: byteSize(1024, 256 * 1024 * 1024)
        .optional()
        .describe(
          'An event with more bytes is delivered in pieces marked `partial`, divided between lines where possible. Replaces `max_line_bytes`. Default: the value of `max_line_bytes`.',
        ),
    })
    .superRefine((options, context) => {
      const given = FORMS.filter(form => options[form] !== undefined)
      if (given.length !== 1) {
        refuse(
          context,
          `needs exactly one of start, continue, until and preset; ${given.join(' and ') || 'none'} given`,
        )
      }
    })
    .optional()
    .describe('Joins several lines into one event.')
})

export type MultilineOptions = NonNullable<z.output<ReturnType<typeof multilineOption>>>

/** The counter that all sources of lines share. */
export const PIECES = [
  'sluice_line_pieces_total',
  'Pieces of over-long lines, not counting the last piece of each line.',
] as const

const SKIPPED = [
  'sluice_skipped_records_total',
  'Skipped records of more than `max_line_bytes`. Counted only with codecs whose records are not lines.',
] as const

/** Divides a stream into the records of a codec, and counts records that are too long. */
export function recordSplitter(framing: Framing, maxBytes: number, metrics?: ComponentMetrics, offset = 0) {
  const skipped = metrics?.counter(...SKIPPED) ?? { value: 0 }
  return new FramedSplitter(framing, maxBytes, () => skipped.value++, offset)
}

export const MULTILINE_NOTES =
  'With `multiline`, the lines of an event are kept as they were read, including the line ends between them. Lines that arrive after their event was ' +
  'delivered form an event of their own, marked `partial`. Patterns are matched against the first 4 KiB of a line, `until` against the last 4 KiB.'

export interface SplitOptions {
  readonly decode: Codec
  readonly max_line_bytes: number
  /** Undefined: an unfinished line waits until the input ends. */
  readonly partial_line_timeout?: number | undefined
  readonly multiline?: MultilineOptions | undefined
}

/** Rejects a codec whose records have no delimiter, because an endless stream needs a delimiter. */
export function checkDelimited({ framing }: Codec, context: z.RefinementCtx): void {
  if (framing?.isWhole)
    refuseAt(context, ['decode'], 'needs a framing; only the source http can read a whole body as one record')
}

export function checkSplit({ decode, multiline }: SplitOptions, context: z.RefinementCtx): void {
  checkDelimited(decode, context)
  if (multiline && !decode.definition.joinsLines) {
    const message = `cannot be used with decode: ${decode.name}, which defines where an event ends; use decode: text`
    refuseAt(context, ['multiline'], message)
  }
}

/**
 * Maximum number of parts of a line, with lines of the other stream between them. The wait for the next part is short:
 * programs write all parts together.
 */
const MOST_PARTS = 1000
export const PARTS_TIMEOUT_MS = 1000

export class Splitting {
  readonly #options: SplitOptions
  readonly #metrics: ComponentMetrics | undefined
  readonly #joiner: Joiner | undefined

  constructor(options: SplitOptions, metrics?: ComponentMetrics) {
    this.#options = options
    this.#metrics = metrics
    const { multiline } = options
    this.#joiner = multiline && joinerOf(multiline)
  }

  /**
   * Creates a splitter that resumes where another splitter stopped. `continues` and `carry`: the state of the other
   * splitter. `offset`: the position of the first byte. A byte order mark can occur only at offset 0.
   */
  splitter(continues = false, carry = 0, offset = 0): LineSplitter {
    const { decode, max_line_bytes } = this.#options
    if (!decode.framing) return this.lineSplitter(continues, carry, offset)
    return recordSplitter(decode.framing, max_line_bytes, this.#metrics, offset)
  }

  /** Creates a splitter for lines, even if the codec has framing. Use it if each line contains one record. */
  lineSplitter(continues = false, carry = 0, offset = 0): LineSplitter {
    const splitter = this.#lineSplitter(continues, carry)
    splitter.mayBeMarked = offset === 0
    return splitter
  }

  #lineSplitter(continues: boolean, carry: number): LineSplitter {
    const { decode, max_line_bytes, multiline } = this.#options
    const { readPart } = decode.definition
    if (!multiline && readPart) return new PartSplitter(readPart, MOST_PARTS, max_line_bytes, continues, carry)
    const joiner = this.#joiner
    if (!multiline || !joiner) return new LineSplitter(max_line_bytes, continues, findLinesInKernel)
    const { max_lines: maxLines, max_bytes: maxBytes = max_line_bytes } = multiline
    return new RecordSplitter({ joiner, maxLines, maxBytes }, continues, carry)
  }

  /** Whether an unfinished event may continue in the next file. A container runtime may divide a line between files. */
  get joinsParts(): boolean {
    return this.#options.decode.definition.readPart !== undefined && this.#options.multiline === undefined
  }

  /**
   * Returns how long an unfinished event waits for more lines before it is delivered incomplete, in milliseconds.
   * `inLine`: its last line is unfinished too.
   */
  patienceMs(inLine: boolean): number {
    const { partial_line_timeout = Number.POSITIVE_INFINITY, multiline } = this.#options
    if (this.#options.decode.framing) return Number.POSITIVE_INFINITY
    if (!this.#joiner && !this.joinsParts) return partial_line_timeout
    const timeout = multiline?.timeout ?? PARTS_TIMEOUT_MS
    return inLine ? Math.max(partial_line_timeout, timeout) : timeout
  }
}

function joinerOf({ start, continue: continuation, until, preset }: MultilineOptions): Joiner {
  if (start) return startsEvent(start)
  if (continuation) return continuesWith(continuation)
  if (until) return endsWith(until)
  return stackTraces([preset!].flat())
}
