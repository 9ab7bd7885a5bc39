import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { MULTILINE_NOTES } from '../../core/options/multiline-options.js'
import { compileReads } from './discovery/glob.js'
import { filesThere, includeWarnings } from './discovery/include-warnings.js'
import { options } from './options.js'
import { startedFiles } from './saved.js'

const NEVER_CUT =
  'has no effect anymore: the next start reads an unfinished line again, from its beginning; remove this option'

export const file = defineSource({
  type: 'file',
  summary: 'Follows files selected by patterns, through rotation and restarts, and reads every line once.',
  notes:
    'The position in each file is saved under `data_dir` after its lines are delivered, and found again after a restart, under whatever ' +
    'name the file has in its folder by then. A file is known by its inode and its content, not by its name: Sluice continues to read a renamed file, ' +
    'and reads the file that takes its place from its beginning. If a file was compressed with gzip or zstd before it was read to its end, its rest is read from ' +
    'the copy, if that is a `.gz` or `.zst` file in the same folder, whether or not it is named or excluded here: `exclude` only applies to files that are ' +
    'read as files of their own. With copy-and-truncate, lines that were not read before the truncation are read from the copy, plain or compressed, in the same folder. ' +
    'A copy that matches the patterns is known by its content, whatever its name is. A new file that is equal to the beginning of another file may be a copy of it. It is ' +
    'read when it differs, or after ten seconds if it does not have the name of a copy, such as `app.log.1`. ' +
    'Compressed files are known by their first bytes. Those of gzip, and of zstd where Node.js reads it (22.15 or newer), are read as lines, unless they are copies of ' +
    'files that were read. Others (xz, bzip2) are skipped: the first one is logged, and `sluice_file_compressed_total` counts them. ' +
    'Symbolic links are followed: whoever can create files in a folder that is read can make Sluice read any file that its user may read. ' +
    'Run it as a user of its own, as its systemd unit does, and not as root over folders that other users may write. ' +
    `${MULTILINE_NOTES} An event that waits for more lines is not behind the saved position: after a kill it is read again from its beginning.`,
  options,
  catchesUp: () => true,
  filesThere: ({ include, exclude, read_from }) => (read_from === 'end' ? undefined : filesThere(include, exclude)),
  fields: ({ decode }) => fieldsOfLines(decode, ['file']),
  warnings: ({ include, exclude, partial_line_at_stop }) => [
    ...includeWarnings(include, exclude),
    ...(partial_line_at_stop ? [{ path: ['partial_line_at_stop'], message: NEVER_CUT }] : []),
  ],
  reads: ({ include, exclude }, onThisMachine) => compileReads(include, exclude, onThisMachine),
  examples: [
    { title: 'Application logs', yaml: "include: [/var/log/app/*.log]\nexclude: ['debug-*']\ndecode: json\n" },
    { title: 'New lines only', yaml: 'include: [/var/log/syslog, /var/log/auth.log]\nread_from: end\n' },
    {
      title: 'Events of several lines that begin with a date',
      yaml: "include: [/var/log/app/*.log]\nmultiline: { start: '^\\d{4}-\\d{2}-\\d{2} ' }\n",
    },
    { title: 'Everything once, then stop', yaml: "include: ['/srv/export/**/*.ndjson']\nfollow: false\n" },
  ],
  overlaps: ({ include, exclude }, saved) => startedFiles(saved, compileReads(include, exclude, false)),
  create: async (options, context) => new (await import('./file-source.js')).FileSource(options, context),
})
