import { z } from 'zod'
import { decodeOption, maxLineBytesOption } from '../../core/codecs/options.js'
import { checkSplit, multilineOption } from '../../core/options/multiline-options.js'
import { duration, refuse } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { globFault } from './discovery/glob.js'

const fileGlob = () =>
  z
    .string()
    .min(1)
    .superRefine((pattern, context) => {
      const fault = globFault([pattern])
      if (fault !== undefined) refuse(context, fault)
    })

export const options = z
  .strictObject({
    include: z
      .array(reaches('files', fileGlob()))
      .min(1)
      .describe(
        'Files to read: paths and patterns with `*`, `?`, `[a-z]`, `{a,b}`, and `**` for folders at any depth.',
      ),
    exclude: z
      .array(reaches('nothing', fileGlob()))
      .default([])
      .describe('Files to exclude. A pattern without a slash applies to the name; other patterns apply to the path.'),
    read_from: z
      .enum(['beginning', 'end'])
      .default('beginning')
      .describe(
        'Where to start reading files that exist when the source first starts. Later files are read completely.',
      ),
    read_old_compressed: z
      .boolean()
      .default(false)
      .describe(
        'Whether to read compressed files that existed when the source first started with `read_from: end`, or that an earlier version of Sluice skipped.',
      ),
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption(),
    partial_line_timeout: duration()
      .optional()
      .describe(
        'How long an unfinished last line may wait before it is delivered as it is. Its rest is then an event of its own, marked `partial`. Default: no limit until the file is renamed or deleted, then `rotate_wait`.',
      ),
    partial_line_at_stop: z
      .enum(['keep', 'deliver'])
      .optional()
      .describe(
        'Has no effect. A stop keeps an unfinished line or event for the next start, and delivers the rest of files deleted or moved elsewhere.',
      ),
    multiline: multilineOption(),
    rotate_wait: duration()
      .prefault('1 Minutes')
      .describe('How long a renamed or deleted file is kept open after its last line, and read while it grows.'),
    scan_interval: duration(10)
      .prefault('2 Seconds')
      .describe(
        'How often Sluice searches for new files and checks the files that it knows. In folders that can be watched, appends and new files are noticed at once, and files without an append for a minute are checked every 8 seconds.',
      ),
    max_open_files: z
      .int()
      .min(1)
      .default(4096)
      .describe(
        'Maximum number of open files; further files are opened in turns. The value is capped at half of the process limit.',
      ),
    follow: z
      .boolean()
      .default(true)
      .describe('False: read existing files to their end, then stop. The run ends when every source has stopped.'),
  })
  .superRefine(checkSplit)
export type FileOptions = z.output<typeof options>
