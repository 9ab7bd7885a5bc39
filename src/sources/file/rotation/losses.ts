import type { SourceContext } from '../../../core/component.js'

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

  report({ file, bytes, kind, msg }: Loss): void {
    const { metrics, log } = this.#context
    this.#bytes.value += bytes
    metrics.failed(kind)
    const code = kind === 'vanished' ? 'SLUICE_FILE_VANISHED' : 'SLUICE_FILE_TRUNCATED'
    log.error({ code, file, unread_bytes: bytes }, msg)
  }
}
