import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { Codec } from '../codec.js'

/** Where lines come from: shared by all batches of one file, connection or stream. */
export interface Origin {
  /** Id of the source component. */
  readonly source: string
  readonly path?: string
  /** The address of the sender, where lines come over a connection. */
  readonly peer?: string
  readonly host: string
  /** What reads the lines. A line that it cannot decode is kept as text, and counted. */
  readonly codec: Codec
  /** The names that the pipeline's processors read, found in one scan. All are added before the first batch. */
  readonly wanted: WantedNames
}
