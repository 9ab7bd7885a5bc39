import type { Logger } from 'pino'
import { errorCode, errorText } from '../../core/errors.js'
import { NewerFormat, refuseNewer, StateUnreadable } from '../../core/unreadable.js'
import type { BufferFolder } from './files.js'
import { type Place, placeBehind } from './frame.js'
import { type LedgerFound, readLedger, removeLedger } from './ledger.js'
import { type Cursor, ForeignSegment, type Incoming, SegmentReader } from './segment-reader.js'
import { FORMAT, formatOf, type Segment, Segments, segmentName, segmentNumber, TITLE } from './segments.js'

/** What a buffer's folder holds at the start, put in order: ready to be read and to be added to. */
export interface Recovered {
  readonly segments: Segments
  readonly ledger: LedgerFound
  /** Where reading goes on: all before it is settled. */
  readonly settled: Cursor & Place
  /** Behind the last event. */
  readonly end: Place
  /** Bytes of an unfinished record that were cut off. */
  readonly tornBytes: number
}

/** Of reading a segment, before it is left out. */
export const ATTEMPTS = 3

const ANYWHERE: Place = { event: 0, byte: 0 }

/**
 * Looks at what is there. Only the end of the last segment is read: what a crash left unfinished there is cut off,
 * since it was never acknowledged. What else is wrong is found when it is read. With `look`, nothing is changed.
 */
export async function recover(folder: BufferFolder, log: Logger, look = false): Promise<Recovered> {
  const ledger = await readLedger(folder)
  const { state } = ledger
  if (ledger.damaged && !look) {
    const fields = { code: 'SLUICE_BUFFER_LEDGER_DAMAGED', folder: folder.path }
    log.error(
      fields,
      'what was delivered from the buffer is not known; all that is in it is delivered, some of it again',
    )
    await removeLedger(folder)
  }
  const found = await listSegments(folder)
  const kept: Segment[] = []
  for (const segment of found) {
    if (state && segment.number < state.settled.segment) {
      if (!look) await folder.remove(segment.name).catch(() => {})
    } else if (await measure(folder, segment, log, look)) kept.push(segment)
  }
  const segments = new Segments(kept, Math.max(found.at(-1)?.number ?? 0, state?.highest ?? 0))
  const { end, tornBytes } = await findEnd(folder, segments, log, look)
  const leaveOut = async (segment: Segment, error: unknown) => {
    if (!look) await setAside(folder, segment, error, log)
  }
  const settled = state?.settled ?? (await firstPlace(folder, segments, end, leaveOut))
  return { segments, ledger, settled, end: furthest(end, state?.end, settled), tornBytes }
}

async function listSegments(folder: BufferFolder): Promise<Segment[]> {
  const numbers = (await folder.list()).map(segmentNumber).filter(number => number !== undefined)
  return numbers.sort((a, b) => a - b).map(number => ({ number, name: segmentName(number), end: 0 }))
}

/** Finds the size of a segment; false when it is gone. Throws StateUnreadable when it cannot be opened, or has a later format. */
async function measure(folder: BufferFolder, segment: Segment, log: Logger, look: boolean): Promise<boolean> {
  for (let attempts = 1; ; attempts++) {
    try {
      const file = await folder.open(segment.name)
      try {
        segment.end = await file.size()
        const title = Buffer.alloc(TITLE.length)
        await file.read(title, 0)
        refuseNewer(formatOf(title), FORMAT)
        return true
      } finally {
        await file.close().catch(() => {})
      }
    } catch (error) {
      if (attempts < ATTEMPTS && !(error instanceof NewerFormat)) continue
      if (errorCode(error) !== 'ENOENT') throw new StateUnreadable(`${folder.path}/${segment.name}`, error)
      if (!look) await setAside(folder, segment, error, log)
      return false
    }
  }
}

/** Renames a segment so that people find it and the next start does not; whether that was possible. */
export async function setAside(folder: BufferFolder, segment: Segment, error: unknown, log: Logger): Promise<boolean> {
  const { name } = segment
  const fields = { file: `${folder.path}/${name}`, error: errorText(error) }
  if (errorCode(error) === 'ENOENT') {
    log.error({ code: 'SLUICE_BUFFER_SEGMENT_GONE', ...fields }, 'a file of the buffer was taken away')
    return true
  }
  const renamed = await folder.rename(name, `${name}.unreadable`).then(
    () => true,
    () => false,
  )
  const text = 'a file of the buffer cannot be read and is left out; its events are not delivered'
  log.error({ code: 'SLUICE_BUFFER_UNREADABLE', ...fields, set_aside: renamed }, text)
  return renamed
}

/** Finds the last whole record, and cuts off what follows it. */
async function findEnd(folder: BufferFolder, segments: Segments, log: Logger, look: boolean): Promise<Found> {
  let tornBytes = 0
  let unknownBytes = 0
  for (let segment = segments.last; segment; segment = segments.last) {
    const { last, error } = await lastRecord(folder, segment)
    const to = last?.cursor.offset ?? 0
    const rest = segment.end - to
    if (error === undefined) {
      tornBytes += rest
      if ((rest > 0 || !last) && !look) await cut(folder, segment, to, log)
    } else if (last || look || !(await setAside(folder, segment, error, log))) unknownBytes += rest
    if (last) {
      segment.end = to
      const { event, byte } = placeBehind(last)
      return { end: { event: event + unknownBytes, byte: byte + unknownBytes }, tornBytes }
    }
    segments.remove(segment)
  }
  return { end: { event: unknownBytes, byte: unknownBytes }, tornBytes }
}

interface Found {
  /**
   * Behind all records, those too that cannot be read now: their places must not be given to others, and a byte is the
   * least that an event takes.
   */
  readonly end: Place
  readonly tornBytes: number
}

async function cut(folder: BufferFolder, { name, end }: Segment, to: number, log: Logger): Promise<void> {
  const fields = { file: `${folder.path}/${name}`, at: to, bytes: end - to }
  if (end > to) log.warn(fields, 'cut an unfinished record off the end of the buffer; its events were not acknowledged')
  try {
    if (to === 0) return await folder.remove(name)
    const file = await folder.open(name)
    try {
      await file.truncate(to)
    } finally {
      await file.close()
    }
  } catch {
    // It is left out in this run, and found to be no record in the next.
  }
}

/** The last whole record of a segment, and what kept it from being read further. */
async function lastRecord(folder: BufferFolder, segment: Segment): Promise<{ last?: Incoming; error?: unknown }> {
  const found: { last?: Incoming; error?: unknown } = {}
  const alone = new Segments([segment], segment.number)
  const reader = readerOf(folder, alone, async (_, error) => {
    found.error = error
  })
  try {
    for (let next: Incoming | undefined; (next = await reader.next(ANYWHERE)); ) found.last = next
  } finally {
    await reader.close()
  }
  return found
}

/** Without a ledger: where the first record is. */
async function firstPlace(
  folder: BufferFolder,
  segments: Segments,
  end: Place,
  leaveOut: (segment: Segment, error: unknown) => Promise<void>,
): Promise<Cursor & Place> {
  const reader = readerOf(folder, segments, leaveOut)
  try {
    const { place } = (await reader.next(ANYWHERE)) ?? { place: end }
    return { segment: segments.first?.number ?? 0, offset: 0, ...place }
  } finally {
    await reader.close()
  }
}

/** A reader from the beginning that takes unreadable segments out of the list. */
function readerOf(
  folder: BufferFolder,
  segments: Segments,
  unreadable: (segment: Segment, error: unknown) => Promise<void>,
): SegmentReader {
  return new SegmentReader(
    folder,
    segments,
    { segment: 0, offset: 0 },
    {
      damaged: () => {},
      failed: async (_, error, failures) =>
        failures < ATTEMPTS && !(error instanceof ForeignSegment) ? 'again' : 'leave_out',
      unreadable: async (segment, error) => {
        segments.remove(segment)
        await unreadable(segment, error)
      },
    },
  )
}

function furthest(...places: (Place | undefined)[]): Place {
  return places.reduce<Place>((a, b) => (b && b.event > a.event ? b : a), ANYWHERE)
}
