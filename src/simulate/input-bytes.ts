import { createReadStream, fstatSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { errorCode } from '../core/errors.js'
import type { Io } from '../daemon/process/command-line.js'
import type { Progress } from '../daemon/process/progress.js'

export interface InputReading {
  readonly io: Io
  readonly progress: Progress
  /** Ends the input early. */
  readonly signal: AbortSignal
}

const READ_BYTES = 256 * 1024
/** The first bytes of gzip data. */
const GZIP = Buffer.from([0x1f, 0x8b])

/** The size of all inputs together, in bytes. Undefined if the size is unknown. */
export function totalSize(paths: readonly string[]): number | undefined {
  let total = 0
  for (const path of paths) {
    const stat = sizeOf(path)
    if (!stat?.isFile()) return undefined
    total += stat.size
  }
  return total
}

function sizeOf(path: string) {
  try {
    return path === '-' ? fstatSync(0) : statSync(path)
  } catch {
    return undefined
  }
}

/**
 * The bytes of an input, decompressed if they are gzip data. A piece is valid until the next piece is requested. If the
 * signal aborts, ends without an error.
 */
export async function* inputBytes(path: string, reading: InputReading): AsyncGenerator<Buffer, undefined> {
  const read = bytesAsRead(path, reading)
  try {
    let first: Buffer = Buffer.alloc(0)
    while (first.length < GZIP.length) {
      const { value } = await read.next()
      if (!value) break
      first = Buffer.concat([first, value])
    }
    if (first.subarray(0, GZIP.length).equals(GZIP)) yield* gunzipped(first, read, path, reading.signal)
    else {
      if (first.length > 0) yield first
      yield* read
    }
  } finally {
    // Closes the input, because the caller may stop early.
    await read.return(undefined)
  }
}

async function* bytesAsRead(path: string, { io, progress, signal }: InputReading): AsyncGenerator<Buffer, undefined> {
  if (path !== '-' && statSync(path).isFile()) {
    const file = await open(path)
    try {
      const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
      while (!signal.aborted) {
        const { bytesRead } = await file.read(buffer, 0, READ_BYTES, null)
        if (bytesRead === 0) return
        progress.add(bytesRead)
        yield buffer.subarray(0, bytesRead)
      }
    } finally {
      await file.close()
    }
    return
  }
  const stream: Readable = path === '-' ? io.stdin : createReadStream(path, { highWaterMark: READ_BYTES })
  const stop = () => stream.destroy()
  signal.addEventListener('abort', stop)
  try {
    if (signal.aborted) return
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk as Buffer)
      progress.add(bytes.length)
      yield bytes
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function* gunzipped(
  first: Buffer,
  rest: AsyncGenerator<Buffer, undefined>,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer, undefined> {
  let failure: unknown
  const copies = async function* () {
    yield first
    try {
      for await (const bytes of rest) yield Buffer.from(bytes)
    } catch (error) {
      failure = error
    }
  }
  const gunzip = createGunzip({ chunkSize: READ_BYTES })
  pipeline(Readable.from(copies()), gunzip, () => {})
  try {
    yield* gunzip as AsyncIterable<Buffer>
  } catch (error) {
    if (signal.aborted) return
    if (failure === undefined && !String(errorCode(error)).startsWith('Z_')) throw error
    const name = path === '-' ? 'standard input' : path
    const what =
      errorCode(error) === 'Z_BUF_ERROR'
        ? 'its gzip data ends early: the file is not complete'
        : 'it begins like gzip data, but is damaged'
    throw failure ?? new Error(`cannot read ${name}: ${what}`, { cause: error })
  }
  if (failure !== undefined) throw failure
}
