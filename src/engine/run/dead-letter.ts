import { type FileHandle, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { DeliveryError } from '../../core/errors.js'
import type { EventBatch } from '../../core/event/batch.js'
import { syncFolder } from '../../lib/files/atomic-file.js'
import { inTurn } from '../../lib/files/in-turn.js'
import { makeFolder } from '../../lib/files/make-folder.js'
import type { Clock } from '../../lib/time.js'
import { formatSize } from '../../lib/units.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import type { DiskAllowance } from '../flow/disk-allowance.js'
import { encodeLetters } from './dead-letter/record.js'
import { pathOf } from './state/inventory.js'

/**
 * The dead-letter queue of a destination: a file of JSON lines, one per rejected event (dead-letter/record.ts).
 * Invariants: `write` resolves when its events are on disk, in the file that has the name at that moment. A record is
 * complete or absent: the torn record left by a crash or a full disk is cut off before the next write. The file may be
 * moved away at any time; no other process may write to it.
 */

const LF = 0x0a
const TAIL_SIZE = 64 * 1024

export function deadLetterPath(dataDir: string, destination: string): string {
  return pathOf(dataDir, 'dead_letters', destination)
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
  /** Inode of the file whose directory entry has been synced. */
  #named: number | undefined
  #isUnwritable = false

  constructor(options: DeadLetterFileOptions) {
    this.path = deadLetterPath(options.dataDir, options.destination)
    this.#folder = dirname(this.path)
    this.#destination = options.destination
    this.#log = options.log
    this.#clock = options.clock
    this.#disk = options.disk
  }

  /** Whether the last attempt to write failed. */
  get isUnwritable(): boolean {
    return this.#isUnwritable
  }

  async write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    try {
      // After a reload, the write of a destination that was stopped may still be running on a slow disk.
      await inTurn(this.path, () => this.#append(request, error))
      this.#isUnwritable = false
    } catch (cause) {
      this.#isUnwritable = true
      throw cause
    }
  }

  async #append(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const bytes = encodeLetters(request, error, { destination: this.#destination, wall: this.#clock.wall() })
    // Written again if the file was moved away during the write: whoever moved it may have read it earlier.
    while (!(await this.#appendTo(bytes))) {}
  }

  /** Appends and syncs. Returns whether the file still had the name then. */
  async #appendTo(bytes: Buffer): Promise<boolean> {
    await makeFolder(this.#folder, 0o700)
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { size, torn } = await cutTornRecord(file)
      if (torn > 0)
        this.#log.warn(
          { file: this.path, bytes: torn },
          'removed a torn record at the end of the file; its events are sent again',
        )
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
      // An earlier write may have created the file and failed here, so this does not depend on creation.
      if (ino !== this.#named) await syncFolder(this.#folder)
      this.#named = ino
      return await isNamed(this.path, file)
    } finally {
      await file.close()
    }
  }
}

function noRoom({ max }: DiskAllowance): DeliveryError {
  const message = `buffers and dead letters use all of their ${formatSize(max)}; remove data that is no longer needed, or set on_reject: discard`
  return new DeliveryError(message, { failure: 'retry', reason: 'account_disk_full' })
}

/** Truncates a file after its last complete record. Returns its size and the number of bytes cut off. */
export async function cutTornRecord(file: FileHandle): Promise<{ size: number; torn: number }> {
  const { size: found } = await file.stat()
  const size = await endOfRecords(file, found)
  if (size < found) await file.truncate(size)
  return { size, torn: found - size }
}

/** The end of the last complete record. */
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
