import type { WantedNames } from '../lib/json-scan.js'

/** What a line is. One that is not what it should be is kept as text, and counted. */
export type Decode = 'json' | 'text' | 'syslog'

/** Where lines come from: shared by all batches of one file, connection or stream. */
export interface Origin {
  /** Id of the source component. */
  readonly source: string
  readonly path?: string
  /** The address of the sender, where lines come over a connection. */
  readonly peer?: string
  readonly host: string
  readonly decode: Decode
  /** The names that the pipeline's processors read, found in one scan. All are added before the first batch. */
  readonly wanted: WantedNames
}
