import type { SourceContext } from '../../../core/component.js'

/** Bytes that were seen in a file, and can be read nowhere any more. */
export interface Loss {
  /** The name that its lines were written under. */
  readonly file: string
  readonly bytes: number
  readonly kind: 'vanished' | 'truncated'
  readonly msg: string
}

/** Counts and logs what cannot be read any more. */
export class Losses {
  readonly #context: SourceContext
  readonly #bytes: { value: number }

  constructor(context: SourceContext) {
    this.#context = context
    this.#bytes = context.metrics.counter(
      'sluice_file_lost_bytes_total',
      'Bytes that were seen in files and could not be read before these were truncated or removed, with no copy left.',
    )
  }

  report({ file, bytes, kind, msg }: Loss): void {
    const { metrics, log } = this.#context
    this.#bytes.value += bytes
    metrics.failed(kind)
    const code = kind === 'vanished' ? 'SLUICE_FILE_VANISHED' : 'SLUICE_FILE_TRUNCATED'
    log.error({ code, file, unread_bytes: bytes }, msg)
  }
}
