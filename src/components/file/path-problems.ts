import type { BigIntStats } from 'node:fs'
import type { ComponentContext } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import type { GradedProblem, Seen } from '../../core/fact.js'
import { statOrNone } from '../../lib/files/disk/disk.js'
import { counted } from '../../lib/units.js'
import { formatOfName, isOfContent } from './compression.js'

/** Maximum number of unreadable files that are named in the status of the daemon. */
const MAX_NAMED = 5

/** A problem that does not recur within this many sweeps is forgotten. */
const FORGET_SWEEPS = 10

interface Problem {
  readonly code: string
  sweep: number
  readonly unread: boolean
  /** Whether the problem lasts as long as the file exists. */
  readonly stays: boolean
}

const FOREIGN =
  'skipped a file that has the name of a rotated file, because neither the owner of the log nor root owns it. If it is a rotated file of this log, change its owner to log_uid. To read it under its own name, add it to include'

type Skipped = 'format' | 'old'

const SKIPPED: Readonly<Record<Skipped, string>> = {
  format: `skipped a compressed file and will skip others like it: this Node.js cannot read the format. Add them to exclude, such as exclude: ['*.xz']`,
  old: 'skipped a compressed file and will skip others like it: they existed when this source first started. To read them, set read_old_compressed: true',
}

interface Named {
  readonly labels: { readonly file: string; readonly cause: string }
  readonly value: number
}

const UNREADABLE =
  'The log names each file and the reason (SLUICE_FILE_UNREADABLE, SLUICE_COPY_DAMAGED). When a file can be read again, reading continues at its last position, or at its beginning.'

/** What to do, by the reason why a file cannot be read. */
const ADVICE: readonly (readonly [cause: RegExp, todo: string])[] = [
  [
    /^(EACCES|EPERM)$/,
    'Let the user of the daemon read the file (permission r) and enter its folders (x), for example with SupplementaryGroups= in the unit.',
  ],
  [/^UTF-16$/, 'Write the file in UTF-8, or convert it: iconv -f UTF-16 -t UTF-8.'],
  [/^UTF-32$/, 'Write the file in UTF-8, or convert it: iconv -f UTF-32 -t UTF-8.'],
  [/^byte /, 'Set decode to the format of the file, write the file again, or remove it from include.'],
]

/** Counts problems with paths. Logs a problem again only if its path worked in between, or failed differently. */
export class PathProblems {
  readonly #context: ComponentContext
  readonly #open = new Map<string, Problem>()
  #sweep = 0
  readonly #compressed: { value: number }
  readonly #foreign: { value: number }
  /** The foreign files in each folder. */
  readonly #foreignIn = new Map<string, ReadonlySet<string>>()
  /** The reasons that were already logged for skipping compressed files. */
  readonly #skipped = new Set<Skipped>()

  constructor(context: ComponentContext) {
    this.#context = context
    this.#compressed = context.metrics.counter(
      'sluice_file_compressed_total',
      'Compressed files that match `include` and were skipped because of their format or because of `read_old_compressed`.',
    )
    this.#foreign = context.metrics.counter(
      'sluice_file_foreign_total',
      'Files with the name of a rotated file that were skipped, because neither the owner of the log nor root owns them.',
    )
    context.metrics.fact({
      name: 'sluice_files_unreadable',
      help: 'Files and folders that cannot be read now.',
      read: () => this.unread,
      problem: (count, seen) => this.#reported(count, seen),
    })
    context.metrics.gauges(
      'sluice_file_unreadable',
      `1 for each file or folder that cannot be read now, for at most ${MAX_NAMED} of them.`,
      () => this.#named(),
    )
  }

  #reported(count: number, { id }: Seen): GradedProblem | false {
    const files = this.#named().map(({ labels }) => labels)
    const named = files.map(({ file, cause }) => `${file} (${cause})`).join(', ')
    const more = count - files.length
    const advice = ADVICE.filter(([of]) => files.some(({ cause }) => of.test(cause)))
    return (
      count > 0 && {
        gravity: 'unread',
        what: `${id}: ${counted(count, 'file')} cannot be read`,
        detail: `${named}${more > 0 ? ` and ${counted(more, 'other file')}` : ''}.`,
        todo: [...advice.map(([, todo]) => todo), UNREADABLE].join(' '),
      }
    )
  }

  #named(): Named[] {
    const named: Named[] = []
    for (const [file, { code: cause, unread }] of this.#open) {
      if (unread && named.push({ labels: { file, cause }, value: 1 }) === MAX_NAMED) break
    }
    return named
  }

  /** Number of paths that cannot be read or listed now. */
  get unread(): number {
    let count = 0
    for (const { unread } of this.#open.values()) if (unread) count++
    return count
  }

  /** `kind` is the metric label of the failure. `stays`: whether the problem lasts as long as the file exists. */
  failed(path: string, kind: 'open' | 'read' | 'list', error: unknown, stays = false): void {
    this.#context.metrics.failed(kind)
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, true, stays)) return
    this.#context.log.error(
      { code: 'SLUICE_FILE_UNREADABLE', file: path, cause: code, error: errorText(error) },
      'cannot read file; retrying every scan_interval',
    )
  }

  /** Reports a path that system calls cannot find. */
  mangled(path: string, kind: 'open' | 'list'): void {
    this.failed(path, kind, new Error('its name, or the name of a folder above it, is not valid UTF-8; rename it'))
  }

  /** Reports a compressed file that cannot be read to its end. Logged and counted once. */
  damaged(path: string, error: unknown): void {
    this.#damaged(path, error, false)
  }

  /**
   * Reports a file that cannot be read and may contain the rest of a missing file. While it exists, it counts as
   * unreadable.
   */
  hidden(path: string, error: unknown): void {
    if (isOfSystem(error) && !formatOfName(path)) this.failed(path, 'open', error, true)
    else this.#damaged(path, error, true)
  }

  #damaged(path: string, error: unknown, isMissed: boolean): void {
    const code = errorCode(error) ?? errorText(error)
    if (!this.#first(path, code, isMissed, true)) return
    this.#context.metrics.failed('copy')
    const rest = isMissed && isOfSystem(error) ? 'retrying every scan_interval' : 'skipping the rest'
    this.#context.log.error(
      { code: 'SLUICE_COPY_DAMAGED', file: path, cause: code, error: errorText(error) },
      `cannot read a compressed file to its end; ${rest}`,
    )
  }

  /** Reports a file in an encoding that is never read. Logged and counted once. */
  refused(path: string, encoding: string): void {
    if (!this.#first(path, encoding, true, true)) return
    this.#context.metrics.failed('open')
    this.#context.log.error(
      { code: 'SLUICE_FILE_UNREADABLE', file: path, cause: encoding },
      `cannot read a file in ${encoding}; ignoring it. Write it in UTF-8, or convert it: iconv -f ${encoding} -t UTF-8`,
    )
  }

  skipped(path: string, stat: BigIntStats): void {
    const what = kindOf(stat)
    if (!this.#first(path, what, false)) return
    this.#context.log.warn({ file: path, what }, 'not a regular file; ignoring it')
  }

  /** Reports a compressed file that is not read. For each reason, only the first file is logged. */
  compressed(path: string, why: Skipped): void {
    this.#compressed.value++
    if (this.#skipped.has(why)) return
    this.#skipped.add(why)
    this.#context.log.warn({ code: 'SLUICE_FILE_COMPRESSED', file: path }, SKIPPED[why])
  }

  /** Reports all skipped files of a folder that have rotated names. Counts those that are new, and logs the first. */
  foreign(folder: string, files: readonly { readonly file: string }[]): void {
    const before = this.#foreignIn.get(folder)
    if (files.length === 0 && !before) return
    this.#foreignIn.set(folder, new Set(files.map(({ file }) => file)))
    const added = files.filter(({ file }) => !before?.has(file))
    this.#foreign.value += added.length
    if (added.length === 0) return
    this.#context.log.warn({ code: 'SLUICE_FILE_FOREIGN', ...added[0], files: added.length }, FOREIGN)
  }

  /** Reports a file that events of this source are written to. */
  ownOutput(path: string): void {
    if (!this.#first(path, 'own output', false)) return
    const text =
      'ignoring a file to which this daemon writes events of this source; list the file in `exclude`, or write elsewhere'
    this.#context.log.warn({ code: 'SLUICE_OWN_OUTPUT', file: path }, text)
  }

  /** Whether the problem has not been logged yet. */
  #first(path: string, code: string, unread: boolean, stays = false): boolean {
    const before = this.#open.get(path)
    this.#open.set(path, { code, sweep: this.#sweep, unread, stays })
    return before?.code !== code
  }

  /** Whether the daemon was not allowed to read the file. */
  isDenied(path: string): boolean {
    return this.#open.get(path)?.code === 'EACCES'
  }

  over(path: string): void {
    if (this.#open.size > 0 && this.#open.delete(path)) this.#context.log.info({ file: path }, 'file can be read now')
  }

  /** Starts a sweep. Forgets problems that did not recur in the last FORGET_SWEEPS sweeps. */
  nextSweep(): void {
    for (const [path, problem] of this.#open) {
      if (problem.sweep >= this.#sweep - FORGET_SWEEPS) continue
      if (problem.stays && mayBeThere(path)) problem.sweep = this.#sweep
      else this.#open.delete(path)
    }
    this.#sweep++
  }
}

/**
 * Whether a name in the path was not valid UTF-8. Such a name was read with replacement characters, so system calls
 * cannot find the path.
 */
export function isMangled(path: string): boolean {
  return path.includes('\ufffd')
}

/** Whether the error means that the system refused a call. Otherwise, the content is damaged. */
export function isOfSystem(error: unknown): boolean {
  return errorCode(error) !== undefined && !isOfContent(error)
}

/** Also true if the file system does not respond. */
function mayBeThere(path: string): boolean {
  try {
    return statOrNone(path) !== undefined
  } catch {
    return true
  }
}

function kindOf(stat: BigIntStats): string {
  if (stat.isDirectory()) return 'folder'
  if (stat.isFIFO()) return 'FIFO'
  return stat.isSocket() ? 'socket' : 'device'
}
