import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { encodeNdjson } from '../codec/encode.js'
import type { EventBatch } from '../core/batch.js'
import type { DeliveryError } from '../core/errors.js'
import { INVALID, MODIFIED, OBJECT } from '../core/flags.js'
import type { Clock } from '../lib/time.js'

/**
 * Where events go that a destination refused for good: lines of JSON, one for each event, appended to a file of the
 * destination. Invariants: `write` resolves when its events are on the disk; a record is whole or not there, since what
 * a crash or a full disk left of one is cut off before the next is written. The file may be moved away at any time.
 *
 * A record: time, destination, status (if any), reason, request_id (if any), error, event: the event as it is sent
 * with `encoding: json`. `line` names the member of the event that holds its line ("message": the text, "raw": base64)
 * as it is sent with `encoding: raw`; without it that line is the event's own JSON.
 */

export interface DeadLetters {
  /** Keeps the events safely; rejects when that was not possible. Does not settle them. */
  write(request: readonly EventBatch[], error: DeliveryError): Promise<void>
}

const LF = 0x0a
const TAIL_SIZE = 64 * 1024

export class DeadLetterFile implements DeadLetters {
  readonly path: string
  readonly #folder: string
  readonly #destination: string
  readonly #log: Logger
  readonly #clock: Clock
  /** Writes come one after the other. */
  #last: Promise<void> = Promise.resolve()

  constructor(options: { dataDir: string; destination: string; log: Logger; clock: Clock }) {
    this.#folder = join(options.dataDir, 'dead-letter')
    this.path = join(this.#folder, `${encodeURIComponent(options.destination)}.ndjson`)
    this.#destination = options.destination
    this.#log = options.log
    this.#clock = options.clock
  }

  write(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const write = this.#last.then(() => this.#append(request, error))
    this.#last = write.catch(() => {})
    return write
  }

  async #append(request: readonly EventBatch[], error: DeliveryError): Promise<void> {
    const bytes = this.#records(request, error)
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { size: found } = await file.stat()
      const size = await endOfRecords(file, found)
      if (size < found) {
        await file.truncate(size)
        this.#log.warn({ file: this.path, bytes: found - size }, 'cut a torn record off; its events are sent again')
      }
      try {
        await file.appendFile(bytes)
        await file.sync()
      } catch (cause) {
        await file.truncate(size).catch(() => {})
        throw cause
      }
      if (size === 0) await syncFolder(this.#folder)
    } finally {
      await file.close()
    }
  }

  #records(request: readonly EventBatch[], error: DeliveryError): Buffer {
    const { status, reason, requestId: request_id, message } = error
    const time = new Date(this.#clock.wall()).toISOString()
    const head = JSON.stringify({ time, destination: this.#destination, status, reason, request_id, error: message })
    const start = Buffer.from(head.slice(0, -1))
    const parts: Buffer[] = []
    for (const batch of request) {
      const encoded = encodeNdjson([batch])
      const lines = Buffer.concat(encoded.parts, encoded.bytes)
      let from = 0
      for (let i = 0; i < batch.length; i++) {
        const end = lines.indexOf(LF, from)
        const line = lineMember(batch.look(i))
        const middle = line ? `,"line":"${line}","event":` : ',"event":'
        parts.push(start, Buffer.from(middle), lines.subarray(from, end), Buffer.from('}\n'))
        from = end + 1
      }
    }
    return Buffer.concat(parts)
  }
}

function lineMember(flags: number): string | undefined {
  if (flags & MODIFIED) return undefined
  if (flags & INVALID) return 'raw'
  return flags & OBJECT ? undefined : 'message'
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

/** So that a new file's name is on the disk as well. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
