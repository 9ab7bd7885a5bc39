import type { Codec } from '../../core/codec.js'
import type { SourceContext } from '../../core/component.js'
import type { Descriptors } from './descriptors.js'
import type { PathProblems } from './path-problems.js'
import type { Tailer } from './reading/tailer.js'
import type { TailerContext } from './reading/tailing.js'
import type { Losses } from './rotation/losses.js'
import type { Saved } from './saved.js'

export interface OpenFilesOptions {
  readonly context: SourceContext
  readonly codec: Codec
  readonly fromEnd: boolean
  /** How long a missing file is kept open and watched for growth. */
  readonly rotateWaitMs: number
  readonly saved: Saved
  readonly tailing: TailerContext
  readonly problems: PathProblems
  readonly descriptors: Descriptors
  readonly rotations: { value: number }
  readonly losses: Losses
  /** Whether changes in the folders of all files are reported, so that quiet files need not be checked by each sweep. */
  areWatched(): boolean
  /** Called when the file may have more to read. */
  onReady(tailer: Tailer): void
  /** Called when no more bytes will come: the rest of the last line is delivered. */
  onEnd(tailer: Tailer): void
  onForget(tailer: Tailer): void
}
