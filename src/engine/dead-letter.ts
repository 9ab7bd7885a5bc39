import { type FileHandle, open, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { DeliveryError } from '../core/errors.js'
import type { EventBatch } from '../core/event/batch.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import { syncFolder } from '../lib/files/atomic-file.js'
import { inTurn } from '../lib/files/in-turn.js'
import { makeFolder } from '../lib/files/make-folder.js'
import type { Clock } from '../lib/time.js'
import { formatSize } from '../lib/units.js'
import { encodeLetters } from './dead-letter/record.js'

/**
 * Where events go that a destination refused for good: lines of JSON, one for each event (dead-letter/record.ts),
 * appended to a file of the destination. Invariants: `write` resolves when its events are on the disk, in the file that
 * had the name then; a record is whole or not there, since what a crash or a full disk left of one is cut off before
 * the next is written. The file may be moved away at any time; nobody else may write to it.
 */

const LF = 0x0a
const TAIL_SIZE = 64 * 1024

/** Where the refused events of a destination are kept. */
export function deadLetterPath(dataDir: string, destination: string): string {
  return join(dataDir, 'dead-letter', `${encodeURIComponent(destination)}.ndjson`)
}

export interface DeadLetterFileOptions {
  readonly dataDir: string
  readonly destination: string
  readonly log: Logger
  readonly clock: Clock
  readonly disk?: DiskAllowance | undefined
}

export class DeadLetterFile implements DeadLetters {
  readonly path: string
  readonly #folder: string
  readonly #destination: string
  readonly #log: Logger
  readonly #clock: Clock
  readonly #disk: DiskAllowance | undefined
  /** The inode of the file whose name is known to survive a power failure. */
  #named: number | undefined

  constructor(options: DeadLetterFileOptions) {
    this.path = deadLetterPath(options.dataDir, options.destination)
    this.#folder = dirname(this.path)
    this.#destination = options.destination
    this.#log = options.log
    this.#clock = options.clock
    this.#disk = options.disk
  }

  write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    // After a reload, the write of a destination that was stopped may still be running on a slow disk.
    return inTurn(this.path, () => this.#append(request, error))
  }

  async #append(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const bytes = encodeLetters(request, error, { destination: this.#destination, wall: this.#clock.wall() })
    // Written once more when the file was moved away meanwhile: whoever did that may have read it before.
    while (!(await this.#appendTo(bytes))) {}
  }

  /** Whether the bytes are safe in the file that has the name, then. */
  async #appendTo(bytes: Buffer): Promise<boolean> {
    await makeFolder(this.#folder, 0o700)
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { size, torn } = await cutTornRecord(file)
      if (torn > 0) this.#log.warn({ file: this.path, bytes: torn }, 'cut a torn record off; its events are sent again')
      this.#disk?.count(this.path, () => size)
      if (this.#disk && !this.#disk.hasRoom(bytes.length)) throw noRoom(this.#disk)
      try {
        await file.appendFile(bytes)
        await file.sync()
        this.#disk?.count(this.path, () => size + bytes.length)
      } catch (cause) {
        await file.truncate(size).catch(() => {})
        throw cause
      }
      const { ino } = await file.stat()
      // Also when an earlier write made the file and failed here.
      if (ino !== this.#named) await syncFolder(this.#folder)
      this.#named = ino
      return await isNamed(this.path, file)
    } finally {
      await file.close()
    }
  }
}

function noRoom({ max }: DiskAllowance): DeliveryError {
  const message = `buffers and dead letters take all of the ${formatSize(max)} that they may use; remove what is not needed any more, or set on_reject: discard`
  return new DeliveryError(message, { failure: 'retry', reason: 'account_disk_full' })
}

/** Makes a file end with a whole record; returns its size, and how much was cut off. */
export async function cutTornRecord(file: FileHandle): Promise<{ size: number; torn: number }> {
  const { size: found } = await file.stat()
  const size = await endOfRecords(file, found)
  if (size < found) await file.truncate(size)
  return { size, torn: found - size }
}

/** Where the last whole record ends. */
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

/** Whether `path` is the name of this file now. */
async function isNamed(path: string, file: FileHandle): Promise<boolean> {
  const [own, named] = await Promise.all([file.stat(), stat(path).catch(() => undefined)])
  return named?.ino === own.ino && named.dev === own.dev
}
