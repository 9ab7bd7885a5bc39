import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../../core/codecs/options.js'
import { checkSplit, multilineOption } from '../../core/options/multiline-options.js'
import { duration } from '../../core/options/options.js'

export const stdioOptions = z
  .strictObject({
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption(),
    partial_line_timeout: duration()
      .optional()
      .describe(
        'How long Sluice waits for the rest of a line before it delivers the unfinished line. Programs pause in the middle of lines if they buffer their output. Default: no limit; the last line is delivered when the input ends.',
      ),
    multiline: multilineOption(),
  })
  .superRefine(checkSplit)
export type StdinOptions = z.output<typeof stdioOptions>
