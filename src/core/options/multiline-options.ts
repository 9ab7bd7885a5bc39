import { z } from 'zod'
import { continuesWith, endsWith, startsWith } from '../../lib/lines/line-patterns.js'
import { LineSplitter } from '../../lib/lines/line-splitter.js'
import { type Joiner, RecordSplitter } from '../../lib/lines/record-splitter.js'
import { LANGUAGES, stackTraces } from '../../lib/lines/stack-traces.js'
import type { Codec } from '../codec.js'
import { byteSize, duration, refuse, refuseAt, regex } from './options.js'

const FORMS = ['start', 'continue', 'until', 'preset'] as const

/** How several lines become one event. */
export function multilineOption() {
  return z
    .strictObject({
      start: regex()
        .optional()
        .describe('A line that matches begins an event; the lines that do not match belong to the one before.'),
      continue: regex()
        .optional()
        .describe('A line that matches belongs to the event before; the lines that do not match begin one.'),
      until: regex().optional().describe('An event ends with the line that matches.'),
      preset: z
        .union([z.enum(LANGUAGES), z.array(z.enum(LANGUAGES)).min(1)])
        .optional()
        .describe(
          'Stack traces of a language, or of several, belong to the event before them, or make one. Where it is known how events begin, `start` is surer: it keeps messages of several lines together, too.',
        ),
      timeout: duration()
        .prefault('1 Seconds')
        .describe(
          'How long an event waits for more lines after the last bytes before it is delivered as it is. If it ends with an unfinished line, it waits as that line does: see `partial_line_timeout`.',
        ),
      max_lines: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(1000)
        .describe('An event of more lines is delivered in pieces, marked `partial`.'),
      max_bytes: byteSize(1024, 256 * 1024 * 1024)
        .optional()
        .describe(
          'An event of more bytes is delivered in pieces, marked `partial`, cut between lines where that is possible. Default: `max_line_bytes`, in the place of which it stands.',
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
    .describe('Joins lines to events of several lines.')
}

export type MultilineOptions = NonNullable<z.output<ReturnType<typeof multilineOption>>>

/** The counter of every source that cuts lines. */
export const PIECES = [
  'sluice_line_pieces_total',
  'Pieces that over-long lines were cut in, without the last of each line.',
] as const

/** What a component with these options has to mention in its `notes`. */
export const MULTILINE_NOTES =
  'With `multiline` the lines of an event stay as they were read, the line ends between them too. Lines that come when their event was ' +
  'delivered already are an event of their own, marked `partial`. Patterns see the first 4 KiB of a line, `until` the last 4 KiB.'

/** The options that say how a source finds its events. */
export interface SplitOptions {
  readonly decode: Codec
  readonly max_line_bytes: number
  /** Undefined: an unfinished line waits for as long as more may come. */
  readonly partial_line_timeout?: number | undefined
  readonly multiline?: MultilineOptions | undefined
}

/** Refuses what does not fit together. */
export function checkSplit({ decode, multiline }: SplitOptions, context: z.RefinementCtx): void {
  if (multiline && !decode.definition.joinsLines) {
    const message = `cannot be used with decode: ${decode.name}, where every line is an event; use decode: text`
    refuseAt(context, ['multiline'], message)
  }
}

/** Makes the splitters of a source's files or streams. */
export class Splitting {
  readonly #options: SplitOptions
  readonly #joiner: Joiner | undefined

  constructor(options: SplitOptions) {
    this.#options = options
    this.#joiner = options.multiline && joinerOf(options.multiline)
  }

  /** A splitter that begins where another one came to; `continues` and `carry` are those of that one. */
  splitter(continues = false, carry = 0): LineSplitter {
    const { max_line_bytes, multiline } = this.#options
    if (!multiline) return new LineSplitter(max_line_bytes, continues)
    const { max_lines: maxLines, max_bytes: maxBytes = max_line_bytes } = multiline
    return new RecordSplitter({ joiner: this.#joiner!, maxLines, maxBytes }, continues, carry)
  }

  /** How long what is unfinished waits for more before it is delivered as it is. */
  patienceMs(inLine: boolean): number {
    const { partial_line_timeout = Number.POSITIVE_INFINITY, multiline } = this.#options
    if (!multiline) return partial_line_timeout
    return inLine ? Math.max(partial_line_timeout, multiline.timeout) : multiline.timeout
  }
}

function joinerOf({ start, continue: goesOn, until, preset }: MultilineOptions): Joiner {
  if (start) return startsWith(start)
  if (goesOn) return continuesWith(goesOn)
  if (until) return endsWith(until)
  return stackTraces([preset!].flat())
}
