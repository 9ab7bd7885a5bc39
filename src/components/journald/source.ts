import { defineSource } from '../../core/component.js'
import { fieldsOfEntries } from './fields.js'
import { journaldOptions } from './options.js'
import { placeIn } from './place.js'

export const journald = defineSource({
  type: 'journald',
  summary: 'Reads the systemd journal through journalctl.',
  notes:
    'Sluice saves its position in the journal under `data_dir` when all entries before it are delivered. After a restart, it continues there, ' +
    'also in rotated journal files. If the entry at this position was removed, Sluice logs and counts this, and continues with the oldest ' +
    'entry after it. `journalctl` must be in the PATH. The user of the daemon must be in the group systemd-journal; otherwise the daemon can only read its own ' +
    'entries. If journalctl ends, Sluice logs and counts this, and starts it again at the same position.\n\n' +
    'Events have `.message`, `.timestamp` (when journald received the entry), `.host`, `.severity` (by name), `.severity_code` (0 to 7), `.app` ' +
    '(the identifier), `.pid` and `.unit`, if the entry has them, and all fields of the entry under their own names: `._SYSTEMD_UNIT`, ' +
    '`.PRIORITY`, `._COMM`. All of these are text. A field that occurs several times is an array; several messages of an entry become the lines of `.message`. If a message is not UTF-8, replacement characters stand for the wrong bytes, and `.raw` has the original bytes in base64.\n\n' +
    'The metric `sluice_journal_lag_seconds` is the age that the last entry had when it was read. While more entries wait, or journalctl ' +
    'does not run, it is the current age of this entry. The metric exists after the first entry. It stays small if the journal gets few entries.',
  promises: {
    guarantee: 'Sluice reads entries again until they are delivered, also after a kill.',
    order: 'Entries keep the order of the journal.',
    duplicates: 'After a kill, about the last second of delivered entries arrives again.',
    limits: 'The journal must keep entries until they are delivered.',
    tested: 'journalctl of systemd 252.',
  },
  reachesUnnamed: { option: 'directory', path: '/var/log/journal' },
  options: journaldOptions,
  examples: [
    { title: 'Warnings and errors of two services', yaml: 'units: [nginx, postgresql]\npriority: warning\n' },
    {
      title: 'New entries only, with few journal fields',
      yaml: 'read_from: end\ninclude_fields: [_TRANSPORT]\n',
    },
    {
      title: 'Entries of the kernel and of one program',
      yaml: 'matches: [_TRANSPORT=kernel, _TRANSPORT=journal, _COMM=backup]\n',
    },
  ],
  overlaps: (_options, saved) => (placeIn(saved).cursor === undefined ? [] : ['the journal']),
  catchesUp: () => true,
  fields: ({ include_fields }) => fieldsOfEntries(include_fields),
  create: async (options, context) => new (await import('./journald-source.js')).Journald(options, context),
  explains: async () => ({ linesOf: (await import('./entries.js')).linesOfEntries }),
})
