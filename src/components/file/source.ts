import { defineSource } from '../../core/component.js'
import { fieldsOfLines } from '../../core/event/event-fields.js'
import { MULTILINE_NOTES } from '../../core/options/multiline-options.js'
import { compileReads } from './discovery/glob.js'
import { fileOptions } from './options.js'
import { startedFiles } from './saved.js'

export const fileSource = defineSource({
  type: 'file',
  summary: 'Follows files selected by patterns, through rotation and restarts, and reads every line once.',
  notes:
    'Sluice saves its position in each file under `data_dir` after the lines are delivered. After a restart, it continues there, even if the file was renamed within its folder. ' +
    'Sluice recognizes a file by its inode and its content, not by its name: it continues to read a renamed file, ' +
    'and reads a new file with the old name from the beginning. If a file was compressed with gzip or zstd before it was read to its end, Sluice reads the rest from ' +
    'the compressed copy: a `.gz` or `.zst` file in the same folder. `include` and `exclude` do not apply to this copy. If rotation copies and truncates a file, Sluice reads the remaining lines from the copy in the same folder. This copy may be compressed. ' +
    'A copy that matches the patterns is recognized by its content, whatever its name is. A new file that equals the beginning of another file may be a copy. It is ' +
    'read when it differs, or after ten seconds if it does not have the name of a copy, such as `app.log.1`. ' +
    'A file counts as a rotated file or a copy of a log only if the owner of the log, or root, owns it. Sluice skips the rotated files of other users, logs them (`SLUICE_FILE_FOREIGN`), and counts them in `sluice_file_foreign_total`. If they match `include`, Sluice reads them under their own names. ' +
    'Compressed files are recognized by their first bytes. Sluice reads the lines of gzip files, and of zstd files with Node.js 22.15 or newer, unless the files are copies of ' +
    'files that were read. It skips other formats (xz, bzip2), logs the first skipped file, and counts all of them in `sluice_file_compressed_total`. ' +
    'Sluice follows symbolic links: anyone who can create files in a folder that Sluice reads can make Sluice read any file that the user of the daemon may read. ' +
    'Run Sluice as a user of its own, as its systemd unit does. Do not run it as root on folders that other users may write. ' +
    `${MULTILINE_NOTES} The saved position is before an event that waits for more lines: after a kill, the event is read again from its beginning.`,
  promises: {
    guarantee: 'Sluice reads lines again until they are delivered, also after a kill.',
    order: 'Lines of a file keep their order, also through rotation.',
    duplicates: 'After a kill, about the last second of delivered lines arrives again.',
    limits: '`max_line_bytes` (1 MiB) for a line. Rotation must keep files until they are delivered.',
    tested: 'logrotate, compressed copies, and eight ways to rotate.',
    advice: '[Tail files](tail-files.md) describes patterns, rotation, events of several lines, and containers.',
  },
  options: fileOptions,
  catchesUp: () => true,
  fields: ({ decode }) => fieldsOfLines(decode, ['file']),
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
  checks: async () => {
    const { includeWarnings } = await import('./discovery/include-warnings.js')
    return { warnings: ({ include, exclude }) => includeWarnings(include, exclude) }
  },
  inspects: async () => ({ filesThere: (await import('./discovery/include-warnings.js')).filesThere }),
  create: async (options, context) => new (await import('./file-source.js')).FileSource(options, context),
})
