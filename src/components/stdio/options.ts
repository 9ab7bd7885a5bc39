import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../../core/codecs/options.js'
import { checkSplit, multilineOption } from '../../core/options/multiline-options.js'
import { duration } from '../../core/options/options.js'

export const options = z
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
export type StdinOptions = z.output<typeof options>
