import type { Tailer } from './tailer.js'
import { hasMore } from './unfinished.js'

/**
 * Whether the file that had the name before got more, which is then queued: programs write to it until they open the
 * new one. Looks once for each time that the tailer was at its end, so that a file that always grows holds nobody up.
 */
export function waitsForFormer(tailer: Tailer, queue: { ready(tailer: Tailer): void }): boolean {
  const { former } = tailer
  if (!former || tailer.sawFormer) return false
  tailer.sawFormer = true
  if (!former.isOpen) tailer.former = undefined
  const isRead = former.isOpen && !former.copy && !former.failed && !former.held && !former.growth.parked
  if (!isRead || former.waitsFor(tailer) || hasMore(former) !== true) return false
  tailer.after = former
  queue.ready(former)
  return former.queued
}
