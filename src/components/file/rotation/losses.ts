import type { SourceContext } from '../../../core/component.js'
import type { Tailer } from '../reading/tailer.js'

/** Bytes that were seen in a file and can no longer be read. */
export interface Loss {
  /** The file name in its events. */
  readonly file: string
  readonly bytes: number
  readonly kind: 'vanished' | 'truncated'
  readonly msg: string
}

/** Counts and logs lost bytes. */
export class Losses {
  readonly #context: SourceContext
  readonly #bytes: { value: number }

  constructor(context: SourceContext) {
    this.#context = context
    this.#bytes = context.metrics.counter(
      'sluice_file_lost_bytes_total',
      'Bytes seen in files that were truncated or removed before they were read, without a copy.',
    )
  }

  /** Logs the files that nothing can read after a stop. Their descriptors allow to copy them before. */
  warn(tailers: readonly Tailer[]): void {
    const text =
      'stopping, but a file that was deleted or moved to another folder is not fully delivered; its undelivered bytes are lost when the daemon ends. To keep them, copy open_as now'
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

  report({ file, bytes, kind, msg }: Loss): void {
    const { metrics, log } = this.#context
    this.#bytes.value += bytes
    metrics.failed(kind)
    const code = kind === 'vanished' ? 'SLUICE_FILE_VANISHED' : 'SLUICE_FILE_TRUNCATED'
    log.error({ code, file, unread_bytes: bytes }, msg)
  }
}

/** Undelivered bytes of a file; 0 while its file system does not respond. */
function undeliveredOf(tailer: Tailer): number {
  return known(() => tailer.undelivered) ?? 0
}

/** Undelivered bytes of deleted files. */
export function undeliveredOfDeleted(tailers: Iterable<Tailer>): number {
  let bytes = 0
  for (const tailer of tailers)
    if (tailer.awaySince !== undefined && known(() => tailer.unlinked)) bytes += undeliveredOf(tailer)
  return bytes
}

/** Undefined while the file system does not respond. */
function known<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}
