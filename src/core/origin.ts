import type { WantedNames } from '../lib/json-scan.js'

/** Where lines come from: shared by all batches of one file, connection or stream. */
export interface Origin {
  /** Id of the source component. */
  readonly source: string
  readonly path?: string
  readonly host: string
  readonly decode: 'json' | 'text'
  /** The names that the pipeline's processors read, found in one scan. All are added before the first batch. */
  readonly wanted: WantedNames
}
