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

export const fileOptions = z
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
      .describe(
        'Files that are not read. A pattern without a slash is compared with the file name, any other pattern with the whole path.',
      ),
    read_from: z
      .enum(['beginning', 'end'])
      .default('beginning')
      .describe(
        'Where to start reading files that exist when the source first starts. Later files are read completely.',
      ),
    read_old_compressed: z
      .boolean()
      .default(false)
      .describe('Whether to read compressed files that `read_from: end` skipped at the first start.'),
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption(),
    partial_line_timeout: duration()
      .optional()
      .describe(
        'How long an unfinished last line may wait before it is delivered as it is. The rest of the line then becomes a second event, marked `partial`. Default: no limit; once the file is renamed or deleted, `rotate_wait`.',
      ),
    multiline: multilineOption(),
    rotate_wait: duration()
      .prefault('1 Minutes')
      .describe(
        'How long a renamed or deleted file stays open after its last new line. Lines that are appended in this time are read.',
      ),
    scan_interval: duration(10)
      .prefault('2 Seconds')
      .describe(
        'How often Sluice searches for new files and checks the files that it knows. In local folders, Sluice usually notices new files and new lines at once. After a minute without new lines, it checks a local file only every 8 seconds.',
      ),
    max_open_files: z
      .int()
      .min(1)
      .default(4096)
      .describe(
        'Maximum number of files that are open at the same time; if there are more, they take turns. The value is capped at half of the files that the process may open.',
      ),
    follow: z
      .boolean()
      .default(true)
      .describe(
        'If false, the source reads existing files to their end, and stops. The daemon ends when all sources have stopped.',
      ),
  })
  .superRefine(checkSplit)
export type FileOptions = z.output<typeof fileOptions>
