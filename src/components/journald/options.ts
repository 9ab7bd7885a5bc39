import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { SEVERITIES } from '../../core/codecs/syslog/syslog-header.js'
import { byteSize, refuseAt } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'
import { RENAMED } from './fields.js'

const FIELD = /^[A-Z_][A-Z0-9_]{0,63}$/

export const journaldOptions = z
  .strictObject({
    units: z
      .array(
        reaches(
          'nothing',
          z.string().regex(/^[^-\s*?[\]][^\s*?[\]]*$/, {
            error: 'must be the name of a unit such as nginx.service, not a pattern',
          }),
        ),
      )
      .min(1)
      .optional()
      .describe(
        'Only entries logged by these units, and entries of systemd about them. A name without a suffix is a service.',
      ),
    priority: z
      .enum(SEVERITIES as [string, ...string[]])
      .optional()
      .describe('Only entries of at least this severity: `warning` gives warning, err, crit, alert and emerg.'),
    matches: z
      .array(
        reaches(
          'nothing',
          z.string().regex(/^[A-Z_][A-Z0-9_]{0,63}=[^\0]*$/, { error: 'must be FIELD=value, as in _TRANSPORT=kernel' }),
        ),
      )
      .min(1)
      .optional()
      .describe(
        'Only entries with these values: FIELD=value, as in _TRANSPORT=kernel. If a field is listed with several values, an entry must have one of them. If several fields are listed, an entry must match all of them.',
      ),
    read_from: z
      .enum(['beginning', 'boot', 'end'])
      .default('beginning')
      .describe(
        'Where to start when the source first starts: with the oldest entry, with the first entry of the current boot, or with new entries.',
      ),
    include_fields: z
      .array(reaches('nothing', z.string().regex(FIELD, { error: 'must be a field of the journal such as _EXE' })))
      .optional()
      .describe(
        'Journal fields that an event keeps besides the common fields, such as `.message` and `.host`. With an empty list, an event keeps only the common fields. Default: all fields.',
      ),
    directory: filePath()
      .optional()
      .describe('Reads the journal files in this folder and its subfolders instead of the journal of this machine.'),
    files: z
      .array(filePath())
      .min(1)
      .optional()
      .describe('Reads only these journal files. Patterns are expanded when journalctl is started.'),
    max_entry_bytes: byteSize(64 * 1024, 256 * 1024 * 1024)
      .prefault('1MiB')
      .describe(
        'Maximum size of an entry, as journalctl prints it. In a larger entry, Sluice truncates the longest fields, and lists them in `.truncated`.',
      ),
  })
  .superRefine(({ directory, files }, context) => {
    if (directory !== undefined && files !== undefined) refuseAt(context, ['files'], 'cannot be used with directory')
  })

export type JournaldOptions = z.output<typeof journaldOptions>

export function placeArgs({ directory, files = [] }: JournaldOptions): string[] {
  return [...(directory === undefined ? [] : [`--directory=${directory}`]), ...files.map(file => `--file=${file}`)]
}

/** Arguments for journalctl that exclude entries of other machines from the journal of this machine. */
export async function ownMachine({ directory, files }: JournaldOptions): Promise<string[]> {
  if (directory !== undefined || files) return []
  const id = await readFile('/etc/machine-id', 'utf8').catch(() => '')
  return /^[0-9a-f]{32}\s*$/.test(id) ? [`_MACHINE_ID=${id.trim()}`] : []
}

export function filterArgs({ units = [], priority, matches = [], include_fields }: JournaldOptions): string[] {
  return [
    ...units.map(unit => `--unit=${unit}`),
    ...(priority === undefined ? [] : [`--priority=${priority}`]),
    ...(include_fields ? [`--output-fields=${[...RENAMED, ...include_fields].join(',')}`] : []),
    ...matches,
  ]
}
