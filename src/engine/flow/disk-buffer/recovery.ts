import type { Logger } from 'pino'
import { errorCode, errorText } from '../../../core/errors.js'
import { refuseNewer, StateUnreadable } from '../../../core/unreadable.js'
import { type BufferFolder, isFinal, retried } from './files.js'
import type { Incoming, Range, RecordCursor } from './incoming.js'
import type { Recovered } from './ledger.js'
import { readLedger, removeLedger } from './ledger.js'
import { SegmentReader } from './log.js'
import {
  FORMAT,
  HEAD_SIZE,
  type LogPosition,
  placeAfter,
  readRecordHead,
  type Segment,
  Segments,
  segmentFormat,
  segmentName,
  segmentNumber,
  TITLE,
} from './segments.js'

const ANYWHERE: LogPosition = { event: 0, byte: 0 }
const START: RecordCursor = { segment: 0, offset: 0 }

type LeaveOut = (segment: Segment, error: unknown) => Promise<unknown>

/**
 * Recovers a buffer's folder. Rejects with StateUnreadable if the ledger or a segment exists but cannot be read. Checks
 * only the end of the buffer. If a crash left an unfinished write there, cuts off this write, which was never
 * acknowledged. Other damage is found when the records are read. With `readOnly`, changes nothing.
 */
export async function recover(folder: BufferFolder, log: Logger, readOnly = false): Promise<Recovered> {
  const ledger = await readLedger(folder)
  const { state } = ledger
  if (ledger.damaged && !readOnly) {
    const fields = { code: 'SLUICE_BUFFER_LEDGER_DAMAGED', folder: folder.path }
    log.error(
      fields,
      'the saved progress of the buffer is damaged; all of its events are delivered, some of them again',
    )
    await removeLedger(folder)
  }
  const leaveOut = async (segment: Segment, error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw new StateUnreadable(`${folder.path}/${segment.name}`, error)
    if (!readOnly) await setAside(folder, segment, error, log)
  }
  const found = await listSegments(folder)
  const kept: Segment[] = []
  for (const segment of found) {
    if (state && segment.number < state.settled.segment) {
      if (!readOnly) await folder.remove(segment.name).catch(() => {})
      continue
    }
    try {
      await retried(() => measure(folder, segment))
      kept.push(segment)
    } catch (error) {
      await leaveOut(segment, error)
    }
  }
  const segments = new Segments(kept, Math.max(found.at(-1)?.number ?? 0, state?.highest ?? 0))
  const { end, tornBytes, cuts } = await findEnd(folder, segments, readOnly, leaveOut)
  // Only `isShort` proves that events were lost. If `isShort` is false, a loss may go unnoticed, because the ledger may
  // be older than the last acknowledged record.
  const isShort = state !== undefined && state.end.event > Math.max(end.event, state.settled.event)
  for (const cut of cuts)
    if (isShort)
      log.error(
        { code: 'SLUICE_BUFFER_CUT_SHORT', ...cut },
        'the buffer was cut short; removed an incomplete record, whose events are lost: their sources will not send them again',
      )
    else log.warn(cut, 'removed an unfinished record at the end of the buffer, probably left by a crash')
  const settled = state?.settled ?? (await firstPlace(folder, segments, end, leaveOut))
  return { segments, ledger, settled, ahead: state?.ahead ?? [], end: furthest(end, state?.end, settled), tornBytes }
}

async function listSegments(folder: BufferFolder): Promise<Segment[]> {
  const numbers = (await folder.list()).map(segmentNumber).filter(number => number !== undefined)
  return numbers.sort((a, b) => a - b).map(number => ({ number, name: segmentName(number), end: 0 }))
}

/** Sets the size of a segment and the place of its first record. */
async function measure(folder: BufferFolder, segment: Segment): Promise<void> {
  const file = await folder.open(segment.name)
  try {
    segment.end = await file.size()
    const start = Buffer.alloc(TITLE.length + HEAD_SIZE)
    await file.read(start, 0)
    refuseNewer(segmentFormat(start.subarray(0, TITLE.length)), FORMAT)
    segment.first = readRecordHead(start, TITLE.length)?.place
  } finally {
    await file.close().catch(() => {})
  }
}

/**
 * Renames a segment that cannot be read, so that the next start ignores it but operators can find it. Returns false if
 * the renaming failed. The disk has then failed, and the file may be intact.
 */
export async function setAside(folder: BufferFolder, segment: Segment, error: unknown, log: Logger): Promise<boolean> {
  const { name } = segment
  const fields = { file: `${folder.path}/${name}`, error: errorText(error) }
  if (errorCode(error) === 'ENOENT') {
    log.error({ code: 'SLUICE_BUFFER_SEGMENT_GONE', ...fields }, 'a file of the buffer is missing')
    return true
  }
  try {
    await folder.rename(name, `${name}.unreadable`)
  } catch {
    return false
  }
  const text = 'cannot read a file of the buffer; skipping it without delivering its events'
  log.error({ code: 'SLUICE_BUFFER_UNREADABLE', ...fields }, text)
  return true
}

/** Finds the last intact record. Unless `readOnly`, cuts off the bytes after that record. */
async function findEnd(
  folder: BufferFolder,
  segments: Segments,
  readOnly: boolean,
  leaveOut: LeaveOut,
): Promise<Found> {
  let tornBytes = 0
  const cuts: Cut[] = []
  for (let segment = segments.last; segment; segment = segments.last) {
    const { last, error } = await lastRecord(folder, segment)
    if (error === undefined) {
      const to = last?.cursor.offset ?? 0
      const rest = segment.end - to
      tornBytes += rest
      if (rest > 0 && !readOnly) cuts.push({ file: `${folder.path}/${segment.name}`, at: to, bytes: rest })
      if ((rest > 0 || !last) && !readOnly) await cut(folder, segment, to)
      segment.end = to
      if (last) return { end: placeAfter(last), tornBytes, cuts }
    } else await leaveOut(segment, error)
    segments.remove(segment)
  }
  return { end: ANYWHERE, tornBytes, cuts }
}

interface Found {
  /** The place after the last record. */
  readonly end: LogPosition
  readonly tornBytes: number
  readonly cuts: readonly Cut[]
}

interface Cut {
  readonly file: string
  readonly at: number
  readonly bytes: number
}

async function cut(folder: BufferFolder, { name }: Segment, to: number): Promise<void> {
  try {
    if (to === 0) return await folder.remove(name)
    const file = await folder.open(name)
    try {
      await file.truncate(to)
    } finally {
      await file.close()
    }
  } catch {
    // If cutting fails, this run ignores the bytes, and the next run will not take them for a record.
  }
}

/** The last intact record of a segment, and the error that ended reading, if any. */
async function lastRecord(folder: BufferFolder, segment: Segment): Promise<{ last?: Range; error?: unknown }> {
  const found: { last?: Range; error?: unknown } = {}
  const alone = new Segments([segment], segment.number)
  const reader = readerOf(folder, alone, async (_, error) => {
    found.error = error
  })
  try {
    for (let next: Incoming | undefined; (next = await reader.next(ANYWHERE)); ) {
      found.last = next
      next.release?.()
    }
  } finally {
    await reader.close()
  }
  return found
}

/** The place of the first record, for a buffer without a ledger. */
async function firstPlace(
  folder: BufferFolder,
  segments: Segments,
  end: LogPosition,
  leaveOut: LeaveOut,
): Promise<RecordCursor & LogPosition> {
  const reader = readerOf(folder, segments, leaveOut)
  try {
    const first = await reader.next(ANYWHERE)
    first?.release?.()
    const place = first?.place ?? end
    return { segment: segments.first?.number ?? 0, offset: 0, ...place }
  } finally {
    await reader.close()
  }
}

/** A reader that starts at the first segment. Calls `unreadable` after a few failed attempts to read a segment. */
function readerOf(folder: BufferFolder, segments: Segments, unreadable: LeaveOut): SegmentReader {
  return new SegmentReader(folder, segments, START, {
    damaged: () => {},
    failed: async (_, error, failures) => (isFinal(error, failures) ? 'leave_out' : 'again'),
    unreadable,
  })
}

/**
 * The place with most events; of places with equally many events, the last. The bytes that a ledger counts may be wrong
 * after a power failure.
 */
function furthest(...places: (LogPosition | undefined)[]): LogPosition {
  return places.reduce<LogPosition>((a, b) => (b && b.event >= a.event ? b : a), ANYWHERE)
}
