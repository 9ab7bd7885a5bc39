import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { Codec } from '../codec.js'

/** The origin of lines, shared by all batches of a file, connection or stream. */
export interface Origin {
  readonly source: string
  readonly path?: string
  /** The address of the sender, for lines received over a connection. */
  readonly peer?: string
  readonly host: string
  /** For an event from a dead-letter queue: when it was first rejected, in wall-clock milliseconds. */
  readonly rejectedAt?: number
  /** The codec that decodes the lines. A line that it cannot decode is kept as text and counted. */
  readonly codec: Codec
  /** The field names that the pipeline's processors read; one scan finds all. Complete before the first batch. */
  readonly wanted: WantedNames
}
