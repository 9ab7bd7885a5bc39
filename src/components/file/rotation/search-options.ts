import type { BigIntStats } from 'node:fs'
import type { SourceContext } from '../../../core/component.js'
import type { KnownBeginnings } from '../beginnings.js'
import type { NameKind } from '../discovery/discovery.js'
import type { Remote } from '../discovery/remote.js'
import type { Registry } from '../known/registry.js'
import type { PathProblems } from '../path-problems.js'
import type { Tailer } from '../reading/tailer.js'
import type { Entry, Saved } from '../saved.js'
import type { Copy } from './copy.js'
import type { Losses } from './losses.js'
import type { Compared } from './newcomers.js'
import type { Listed } from './owners.js'

/** The files of the source (open-files.ts), as the search for renamed and copied files needs them. */
export interface SearchedFiles extends Pick<Registry, 'tailers' | 'in' | 'named' | 'isName' | 'displace'> {
  /** Opens the file if it is closed. Returns false if the file cannot be read now. */
  open(tailer: Tailer): boolean
  isRead(path: string, stat: BigIntStats): boolean
  isSaved(stat: BigIntStats, path: string): boolean
  isOld(stat: BigIntStats): boolean
  examine(path: string, kind?: NameKind, result?: Compared): boolean
  adoptRest(entry: Entry, place: Listed | Copy): Tailer | undefined
  readOn(tailer: Tailer, place: Listed | Copy): boolean
  truncated(former: Tailer): void
  hold(tailer: Tailer): void
  forget(tailer: Tailer): void
  retire(tailer: Tailer): void
}

export interface SearchOptions {
  readonly context: SourceContext
  readonly saved: Saved
  readonly problems: PathProblems
  readonly losses: Losses
  readonly remote: Remote
  readonly files: SearchedFiles
  readonly beginnings: KnownBeginnings<Tailer>
  onReady(tailer: Tailer): void
  /** Called when the file gets no more bytes. Its unfinished last line is then delivered. */
  onEnd(tailer: Tailer): void
}
