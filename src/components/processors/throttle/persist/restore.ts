import type { Logger } from 'pino'
import { errorText } from '../../../../core/errors.js'
import { refuseNewer } from '../../../../core/unreadable.js'
import type { BufferFolder } from '../../../../engine/flow/disk-buffer/files.js'
import { type Clock, nextTurn } from '../../../../lib/time.js'
import type { BucketsReader } from '../../../throttle/persist/saved-buckets.js'
import {
  BUCKETS_FORMAT,
  type BucketSegment,
  blocksOf,
  bucketSegmentName,
  type SegmentHead,
  segmentsIn,
  surveySegment,
} from './segments.js'

export interface Restoring {
  readonly folder: BufferFolder
  readonly means: SegmentHead['means']
  /** The clock of the decisions. Undefined if decisions are in event time. */
  readonly clock: Clock | undefined
  readonly wall: number
  readonly log: Logger
}

/** Reads the buckets that an earlier run has saved. If data cannot be used, skips the data and logs this. */
export async function restoreBuckets(to: BucketsReader, restoring: Restoring): Promise<void> {
  const segments = await usable(restoring)
  const newest = segments.at(-1)
  if (!newest) return
  const { folder, clock, wall, log } = restoring
  const shifts = clock ? shiftsOf(segments, { now: clock.now(), wall }) : segments.map(() => 0)
  for (const [n, { name, sluice_buckets }] of segments.entries()) {
    try {
      const now = clock?.now() ?? Number.NEGATIVE_INFINITY
      await readSegment(folder, name, content => to.read(content, now, shifts[n]!, sluice_buckets === BUCKETS_FORMAT))
    } catch (error) {
      reportUnreadable(restoring, name, error)
    }
  }
  if (to.unknown.size > 0)
    log.warn(
      { rules: to.unknown.size },
      'rules have changed, so their saved buckets cannot be used; their windows start empty',
    )
  if (to.withoutRoom > 0)
    log.warn(
      { buckets: to.withoutRoom },
      'max_keys is lower than the number of saved buckets; buckets beyond max_keys are not restored',
    )
  log.info({ saved_at: new Date(newest.last.wall).toISOString() }, 'continuing with the saved buckets')
}

/** The segments that can be read and were written with the same options, the oldest first. */
async function usable(restoring: Restoring): Promise<BucketSegment[]> {
  const { folder, means, log } = restoring
  const found: BucketSegment[] = []
  let changed: string[] = []
  for (const name of await namesIn(restoring)) {
    try {
      const segment = await surveySegment(folder, name)
      if (segment) refuseNewer(segment.sluice_buckets, BUCKETS_FORMAT)
      if (!segment || segment.lost > 0)
        log.warn(
          { file: `${folder.path}/${name}`, lost_bytes: segment?.lost },
          `a file with saved buckets is damaged, or was being written when the daemon ended; using ${
            segment ? 'the buckets saved before that' : 'no buckets from it'
          }`,
        )
      if (!segment) continue
      changed = changedOptions(segment.means, means)
      if (changed.length === 0) found.push(segment)
    } catch (error) {
      reportUnreadable(restoring, name, error)
    }
  }
  if (changed.length > 0)
    log.warn(
      { options: changed },
      'these options have changed, so the saved buckets cannot be used; all windows start empty',
    )
  return found
}

async function namesIn(restoring: Restoring): Promise<string[]> {
  try {
    return (await segmentsIn(restoring.folder)).map(bucketSegmentName)
  } catch (error) {
    reportUnreadable(restoring, '', error)
    return []
  }
}

function changedOptions(before: SegmentHead['means'], now: SegmentHead['means']): string[] {
  const names = Object.keys({ ...before, ...now })
  return names.filter(name => JSON.stringify(before[name]) !== JSON.stringify(now[name]))
}

function reportUnreadable({ folder, log }: Restoring, name: string, error: unknown): void {
  const fields = { code: 'SLUICE_BUCKETS_UNREADABLE', file: `${folder.path}/${name}`, error: errorText(error) }
  log.error(fields, 'cannot read saved buckets; their windows start empty')
}

/**
 * The shift that converts each segment's times to the current clock. Within a run, the shift is exact. Between runs,
 * and from the last run to now, the wall clock gives the elapsed time, or 0 if the wall clock was set back.
 */
function shiftsOf(segments: readonly BucketSegment[], present: { now: number; wall: number }): number[] {
  const shifts: number[] = []
  let shift = 0
  let next = present
  let run: string | undefined
  for (const segment of segments.toReversed()) {
    const { first, last } = segment
    if (segment.run !== run) shift += next.now - Math.max(0, next.wall - last.wall) - last.now
    // A whole number is added, because it keeps the precision of times.
    shift = Math.round(shift)
    shifts.unshift(shift)
    next = first
    run = segment.run
  }
  return shifts
}

async function readSegment(folder: BufferFolder, name: string, read: (content: Buffer) => void) {
  const file = await folder.open(name)
  try {
    let isFirst = true
    for await (const { content } of blocksOf(file)) {
      if (!isFirst) read(content)
      isFirst = false
      await nextTurn()
    }
  } finally {
    await file.close()
  }
}
