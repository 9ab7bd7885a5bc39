import { type FileHandle, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { DeliveryError } from '../../../core/errors.js'
import { Ack } from '../../../core/event/ack.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { Origin } from '../../../core/event/origin.js'
import { above0, CHECK_DISK } from '../../../core/fact.js'
import { syncFolder } from '../../../lib/files/atomic-file.js'
import { makeFolder } from '../../../lib/files/make-folder.js'
import type { Clock } from '../../../lib/time.js'
import { inTurn } from '../../../lib/turns.js'
import { counted, formatSize, lasting } from '../../../lib/units.js'
import type { ComponentCounters } from '../../flow/counters.js'
import type { DeadLetters } from '../../flow/dead-letters.js'
import type { DiskAllowance } from '../../flow/disk-allowance.js'
import type { FanOut } from '../../flow/fan-out.js'
import { lineBatch } from '../../flow/made-batch.js'
import { pathOf } from '../state/inventory.js'
import { encodeLetters } from './record.js'
import { resendCommand } from './resend-command.js'
import { DeadLetterStock } from './stock.js'

/**
 * The dead-letter queue of a component is a file of JSON lines, one for each rejected event (record.ts). The queue is
 * not used if a component reads the side output for rejected events. When `write` resolves, the events are on disk, in
 * the file that has this path at that time. If a crash or a full disk left an incomplete record, the next write first
 * cuts it off, so that only complete records remain. The file may be moved away at any time, but no other process may
 * write to it.
 */

const LF = 0x0a
const TAIL_SIZE = 64 * 1024

interface DeadLetterFileOptions {
  readonly dataDir: string
  readonly destination: string
  readonly log: Logger
  readonly clock: Clock
  readonly disk?: DiskAllowance | undefined
}

export interface DeadLetterEnvironment extends Pick<DeadLetterFileOptions, 'log' | 'clock' | 'disk'> {
  readonly metrics: ComponentCounters
}

export function openDeadLetters(id: string, dataDir: string, environment: DeadLetterEnvironment): DeadLetterFile {
  const { log, clock, metrics, disk } = environment
  const file = new DeadLetterFile({ dataDir, destination: id, log, clock, disk })
  const stock = new DeadLetterStock(file.path)
  metrics.beforeScrape = () => stock.refresh()
  const series = (value: number | undefined) => (value === undefined ? [] : [{ labels: {}, value }])
  const help = '1 if the last write to the dead-letter queue failed. Its events wait until a write succeeds.'
  const todo = `No events are lost: they wait, and the daemon tries again until the write succeeds. ${CHECK_DISK} (SLUICE_DEAD_LETTER, or the reason dead_letter of a destination).`
  const problem = above0('rejected', 'its dead-letter queue cannot be written', todo)
  metrics.fact({ name: 'sluice_dead_letters_unwritable', help, read: () => (file.isUnwritable ? 1 : 0), problem })
  const age = () => stock.oldest && Math.max(0, clock.wall() - stock.oldest) / 1000
  metrics.fact({
    name: 'sluice_dead_letters',
    help: 'Events in the dead-letter queue in data_dir now.',
    read: () => series(stock.events),
    live: dead_letters => ({ dead_letters }),
    problem: (events, { kind, about }) => {
      const [command, oldest] = [resendCommand(id, about), age()]
      const since = oldest ? `, the oldest for ${lasting(oldest)}` : ''
      const cause = kind === 'processor' ? 'They could not be processed' : 'The destination rejected them'
      return (
        events > 0 && {
          gravity: 'rejected',
          what: `${id}: ${counted(events, 'event')} in the dead-letter queue${since}`,
          todo: `${cause}. The first command lists the reasons. When the cause is corrected, the second command sends them again.`,
          commands: [`${command} --dry-run`, command],
        }
      )
    },
  })
  metrics.gauges('sluice_dead_letters_age_seconds', 'Age of the oldest event in the dead-letter queue.', () =>
    series(age()),
  )
  return file
}

export class DeadLetterFile implements DeadLetters {
  readonly path: string
  readonly #options: DeadLetterFileOptions
  /** Inode of the file whose directory entry was synced. */
  #named: number | undefined
  isUnwritable = false

  constructor(options: DeadLetterFileOptions) {
    this.path = pathOf(options.dataDir, 'dead_letters', options.destination)
    this.#options = options
  }

  async write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    try {
      // Waits its turn, since a destination that a reload stopped may still be writing the file to a slow disk.
      await inTurn(this.path, () => this.#append(request, error))
      this.isUnwritable = false
    } catch (cause) {
      this.isUnwritable = true
      throw cause
    }
  }

  async #append(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const { destination, clock } = this.#options
    const bytes = encodeLetters(request, error, { destination, wall: clock.wall() })
    // Writes again if the file was moved away during the write. Whoever moved the file may have read it before the
    // events were in it.
    while (!(await this.#appendTo(bytes))) {}
  }

  /** Appends and syncs. Returns whether the file still had its name after the sync. */
  async #appendTo(bytes: Buffer): Promise<boolean> {
    const { log, disk } = this.#options
    const folder = dirname(this.path)
    await makeFolder(folder, 0o700)
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { size, torn } = await cutTornRecord(file)
      if (torn > 0)
        log.warn(
          { file: this.path, bytes: torn },
          'removed an incomplete record at the end of the file; its events are sent again',
        )
      disk?.count(this.path, () => size)
      if (disk && !disk.hasRoom(bytes.length)) throw noRoom(disk)
      try {
        await file.appendFile(bytes)
        await file.sync()
        disk?.count(this.path, () => size + bytes.length)
      } catch (cause) {
        await file.truncate(size).catch(() => {})
        throw cause
      }
      const { ino } = await file.stat()
      // Syncs the names of existing files, too, since an earlier write may have created the file and then failed here.
      // A new file may have the inode of a removed one.
      if (ino !== this.#named || size === 0) await syncFolder(folder)
      this.#named = ino
      return await isNamed(this.path, file)
    } finally {
      await file.close()
    }
  }
}

/**
 * The side output of a destination for rejected events. Passes on each event as a dead-letter record in JSON, with
 * fields such as reason, status, request_id and event. An event is safe when every reader of the output has accepted
 * it.
 */
export class RejectedOutput implements DeadLetters {
  readonly #fanOut: FanOut
  readonly #origin: Origin
  readonly #clock: Clock

  constructor(fanOut: FanOut, origin: Origin, clock: Clock) {
    this.#fanOut = fanOut
    this.#origin = origin
    this.#clock = clock
  }

  write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const wall = this.#clock.wall()
    const bytes = encodeLetters(request, error, { destination: this.#origin.source, wall })
    if (bytes.length === 0) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const ack = new Ack(status => {
        if (status === 'errored') reject(new Error('the components that read the rejected events did not accept them'))
        else resolve()
      })
      // Need not wait for room, since each rejected request waits until its own events are accepted.
      void this.#fanOut.write(lineBatch(bytes, this.#origin, wall, ack))
    })
  }
}

function noRoom({ max }: DiskAllowance): DeliveryError {
  if (max === undefined)
    return new DeliveryError('the disk of data_dir is almost full, and the rest is reserved for positions', {
      failure: 'retry',
      reason: 'disk_full',
    })
  const message = `buffers and dead-letter queues use all of their ${formatSize(max)}; remove data that is no longer needed, or set on_reject: discard`
  return new DeliveryError(message, { failure: 'retry', reason: 'account_disk_full' })
}

/** Truncates a file after its last complete record. Returns its size and the number of removed bytes. */
export async function cutTornRecord(file: FileHandle): Promise<{ size: number; torn: number }> {
  const { size: found } = await file.stat()
  const size = await endOfRecords(file, found)
  if (size < found) await file.truncate(size)
  return { size, torn: found - size }
}

async function endOfRecords(file: FileHandle, size: number): Promise<number> {
  const tail = Buffer.alloc(TAIL_SIZE)
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - TAIL_SIZE)
    const { bytesRead } = await file.read(tail, 0, end - start, start)
    const newline = tail.subarray(0, bytesRead).lastIndexOf(LF)
    if (newline >= 0) return start + newline + 1
    end = start
  }
  return 0
}

/** Whether `path` still refers to this file. */
async function isNamed(path: string, file: FileHandle): Promise<boolean> {
  const [own, named] = await Promise.all([file.stat(), stat(path).catch(() => undefined)])
  return named?.ino === own.ino && named.dev === own.dev
}
