import { type FileHandle, open, stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { errorCode } from '../../../core/errors.js'
import type { Clock } from '../../../lib/time.js'
import type { ComponentCounters } from '../../flow/counters.js'
import type { DiskAllowance } from '../../flow/disk-allowance.js'
import { DeadLetterFile, deadLetterPath } from '../dead-letter.js'
import { doneOf, folderOf, mergingIn, recordsIn } from './places.js'

const LF = 0x0a
const PIECE = 256 * 1024
/** Size of the start of a record, which contains its time. */
const HEAD = 64
const TIME = /^\{"time":"([^"]+)"/

/** The count of one file. */
interface Counted {
  readonly inode: number
  /** Offset at which counting started. */
  readonly from: number
  /** End of the last complete record. */
  readonly end: number
  readonly events: number
  /** Time of the first record, wall clock in milliseconds. */
  readonly oldest: number
}

/**
 * Counts the dead letters of a destination in data_dir, including those written or removed by an earlier daemon or
 * `sluice resend`. Counting happens on demand and reads only what is new.
 */
export class DeadLetterStock {
  readonly #dataDir: string
  readonly #destination: string
  #counted = new Map<string, Counted>()
  #known = false
  #refreshing: Promise<void> | undefined

  constructor(dataDir: string, destination: string) {
    this.#dataDir = dataDir
    this.#destination = destination
  }

  /** Undefined before the first count. */
  get events(): number | undefined {
    if (!this.#known) return undefined
    return [...this.#counted.values()].reduce((sum, { events }) => sum + events, 0)
  }

  /** When the oldest event was rejected, wall clock in milliseconds; undefined if there is none. */
  get oldest(): number | undefined {
    const times = [...this.#counted.values()].filter(({ events }) => events > 0).map(({ oldest }) => oldest)
    return times.length > 0 ? Math.min(...times) : undefined
  }

  /** Counts changes since the last call. A file that cannot be read keeps its last count. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #refresh(): Promise<void> {
    const path = deadLetterPath(this.#dataDir, this.#destination)
    const folder = folderOf(path)
    const files: [string, number][] = [[path, 0]]
    if (await stat(folder).catch(() => undefined)) {
      files.push([recordsIn(folder), await doneOf(folder)], [mergingIn(folder), 0])
      files.push([deadLetterPath(folder, this.#destination), 0])
    }
    const counted = new Map<string, Counted>()
    for (const [file, from] of files) {
      const known = this.#counted.get(file)
      try {
        counted.set(file, await count(file, from, known))
      } catch (error) {
        if (errorCode(error) !== 'ENOENT' && known) counted.set(file, known)
      }
    }
    this.#counted = counted
    this.#known = true
  }
}

/** Counts the records of a file from `from` on, resuming after the last count of the same file. */
async function count(path: string, from: number, known: Counted | undefined): Promise<Counted> {
  const { ino, size } = await stat(path)
  const same = known?.inode === ino && known.from === from && known.end <= size ? known : undefined
  if (same?.end === size) return same
  const file = await open(path, 'r')
  try {
    let { end, events } = same ?? { end: from, events: 0 }
    const oldest = same && same.events > 0 ? same.oldest : await timeAt(file, from)
    const piece = Buffer.allocUnsafe(PIECE)
    for (let at = end; ; ) {
      const { bytesRead } = await file.read(piece, 0, PIECE, at)
      if (bytesRead === 0) break
      const read = piece.subarray(0, bytesRead)
      for (let found = read.indexOf(LF); found >= 0; found = read.indexOf(LF, found + 1)) {
        events++
        end = at + found + 1
      }
      at += bytesRead
    }
    return { inode: ino, from, end, events, oldest }
  } finally {
    await file.close()
  }
}

/** The time of the record at `from`, or the file's modification time if there is none. */
async function timeAt(file: FileHandle, from: number): Promise<number> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD), 0, HEAD, from)
  const [, text = ''] = TIME.exec(buffer.toString('latin1', 0, bytesRead)) ?? []
  const time = Date.parse(text)
  return Number.isNaN(time) ? (await file.stat()).mtimeMs : time
}

export interface DeadLetterEnvironment {
  readonly log: Logger
  readonly clock: Clock
  readonly metrics: ComponentCounters
  readonly disk: DiskAllowance | undefined
}

/** Opens the dead-letter queue of a component, and registers its gauges. */
export function openDeadLetters(id: string, dataDir: string, environment: DeadLetterEnvironment): DeadLetterFile {
  const { log, clock, metrics, disk } = environment
  showDeadLetters(metrics, dataDir, id, clock)
  const file = new DeadLetterFile({ dataDir, destination: id, log, clock, disk })
  const help = '1 if the last attempt to write dead letters failed. Their events wait until it succeeds.'
  metrics.gauge('sluice_dead_letters_unwritable', help, () => (file.isUnwritable ? 1 : 0))
  return file
}

function showDeadLetters(counters: ComponentCounters, dataDir: string, destination: string, clock: Clock): void {
  const stock = new DeadLetterStock(dataDir, destination)
  counters.beforeScrape = () => stock.refresh()
  const series = (value: number | undefined) => (value === undefined ? [] : [{ labels: {}, value }])
  counters.gauges('sluice_dead_letters', 'Events in the dead-letter queue in data_dir now.', () => series(stock.events))
  counters.gauges('sluice_dead_letters_age_seconds', 'Age of the oldest event in the dead-letter queue.', () => {
    const { oldest } = stock
    return series(oldest && Math.max(0, clock.wall() - oldest) / 1000)
  })
}
