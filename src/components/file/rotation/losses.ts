import type { SourceContext } from '../../../core/component.js'
import { type GradedProblem, OVER_MS, type Seen } from '../../../core/fact.js'
import { orUnknown } from '../../../lib/files/disk/disk.js'
import { clockTime, counted, short } from '../../../lib/units.js'
import type { Tailer } from '../reading/tailer.js'

/** Bytes that were seen in a file and can no longer be read. */
export interface Loss {
  /** The file name in the events of the file. */
  readonly file: string
  readonly bytes: number
  /** When the file was last seen with these bytes, wall clock in milliseconds. */
  readonly since: number | undefined
  readonly kind: 'vanished' | 'truncated'
  readonly msg: string
}

const MAX_SERIES = 50
const OTHER = 'other'
/** At most this many files are named in a problem: those that lost the most bytes. */
const NAMED = 3

export class Losses {
  readonly #context: SourceContext
  readonly #bytes: { value: number }
  /** Losses by file name; under `OTHER` if there are too many names. `at`: last loss, wall clock in milliseconds. */
  readonly #files = new Map<string, { bytes: number; at: number }>()

  constructor(context: SourceContext) {
    this.#context = context
    this.#bytes = context.metrics.counter(
      'sluice_file_lost_bytes_total',
      'Bytes that were seen in a file, but not read before it was truncated or removed, and that no copy has.',
      {},
      { problem: (bytes, seen) => this.#reported(bytes, seen) },
    )
    const byFile = (value: (lost: { bytes: number; at: number }) => number) =>
      Array.from(this.#files, ([file, lost]) => ({ labels: { file }, value: value(lost) }))
    const whose = `by the name of the file; beyond ${MAX_SERIES} names, as "${OTHER}"`
    context.metrics.gauges('sluice_file_lost_bytes', `Bytes lost since the source started, ${whose}.`, () =>
      byFile(({ bytes }) => bytes),
    )
    context.metrics.gauges('sluice_file_lost_timestamp_seconds', `Unix time of the last loss, ${whose}.`, () =>
      byFile(({ at }) => at / 1000),
    )
  }

  #reported(bytes: number, { id, wall }: Seen): GradedProblem | false {
    const files = [...this.#files].sort(([, a], [, b]) => b.bytes - a.bytes)
    const named = files.slice(0, NAMED).map(([file, { bytes, at }]) => {
      return `${short(bytes)}B of ${file} (last at ${clockTime(new Date(at).toISOString(), wall)})`
    })
    const more = files.length - named.length
    const detail = `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other file')}` : ''}.`
    const isOver = wall - Math.max(0, ...files.map(([, { at }]) => at)) > OVER_MS
    return (
      bytes > 0 && {
        gravity: isOver ? 'notice' : 'unread',
        what: `${id} has lost ${short(bytes)}B of its files since the daemon started`,
        ...(named.length > 0 && { detail }),
        todo: 'The files were removed or truncated before they were read to their end, and no copy was found. The log names the files (SLUICE_FILE_VANISHED, SLUICE_FILE_TRUNCATED).',
      }
    )
  }

  /** Warns of deleted or moved files with undelivered bytes. Only descriptors of this process can read these bytes. */
  warn(tailers: readonly Tailer[]): void {
    const text =
      'stopping, but a file that was deleted or moved to another folder is not fully delivered; its undelivered bytes are lost when the daemon ends. To keep them, copy it now from the path in open_as'
    for (const tailer of tailers) {
      const undelivered = undeliveredOf(tailer)
      if (undelivered === 0) continue
      const open = `/proc/${process.pid}/fd/${tailer.fd}`
      const fields = { file: tailer.path, undelivered_bytes: undelivered, open_as: open }
      this.#context.log.warn({ code: 'SLUICE_FILE_DELETED', ...fields }, text)
    }
  }

  /** Logs a file whose rest could not be read before the stop. */
  stopped(tailer: Tailer): void {
    const { log } = this.#context
    const fields = { file: tailer.path, undelivered_bytes: undeliveredOf(tailer) }
    const text = 'stopped, but a file that was deleted or moved to another folder was not fully delivered'
    log.error({ code: 'SLUICE_FILE_VANISHED', ...fields }, text)
  }

  report({ file, bytes, since, kind, msg }: Loss): void {
    const { metrics, log, clock } = this.#context
    this.#bytes.value += bytes
    const name = this.#files.has(file) || this.#files.size < MAX_SERIES ? file : OTHER
    this.#files.set(name, { bytes: bytes + (this.#files.get(name)?.bytes ?? 0), at: clock.wall() })
    metrics.failed(kind)
    const code = kind === 'vanished' ? 'SLUICE_FILE_VANISHED' : 'SLUICE_FILE_TRUNCATED'
    const lastSeen = since === undefined ? {} : { last_seen: new Date(since).toISOString() }
    log.error({ code, file, unread_bytes: bytes, ...lastSeen }, msg)
  }
}

/** Undelivered bytes of a file; 0 while its file system does not respond. */
function undeliveredOf(tailer: Tailer): number {
  return orUnknown(() => tailer.undelivered) ?? 0
}

export function undeliveredOfDeleted(tailers: Iterable<Tailer>): number {
  let bytes = 0
  for (const tailer of tailers)
    if (tailer.awaySince !== undefined && tailer.size > tailer.committed.offset && orUnknown(() => tailer.unlinked))
      bytes += undeliveredOf(tailer)
  return bytes
}
