import type { Socket } from 'node:net'
import { untilReadable } from '../../lib/files/until-readable.js'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { type Clock, nextTurn } from '../../lib/time.js'
import type { Framer } from './framer.js'

/** At the end of a run: how long a sender may continue what it has begun, and how long it may pause. */
const LEAVE_MS = 2000
const PAUSE_MS = 250
/** Maximum amount in the buffers of both systems at that time. It is read as fast as there is room. */
const MOST_ON_ITS_WAY_BYTES = 32 * 1024 * 1024
/** After a read of at least this size there is probably more, which makes one batch with it, up to this size. */
const LARGE_READ_BYTES = 16 * 1024
const MOST_GATHERED_BYTES = 256 * 1024

export interface Reading {
  readonly socket: Socket
  readonly framer: Framer
  readonly clock: Clock
  /** Maximum idle time before the connection is closed. */
  readonly idleMs: number | undefined
  /** Whether several reads may be kept in memory to make one batch. */
  mayGather(): boolean
  /** Resolves when there is room; nothing is read before. */
  room(): Promise<void>
  /** Accepts a frame synchronously. */
  take(frame: Frame): void
  /** Called after the framer's unfinished message may have changed. */
  pendingChanged(): void
}

/** Why a connection is closed. corrupt: its bytes cannot be divided into messages any further. */
type Ending = 'ended' | 'idle' | 'stopped' | 'corrupt'

/**
 * Reads a connection to its end, as fast as there is room. When the signal aborts, the connection is half-closed to
 * notify the sender; data in transit is still read.
 */
export async function readConnection(reading: Reading, signal: AbortSignal): Promise<Ending> {
  const { socket, framer, clock, idleMs } = reading
  let leaving: { readonly until: number; readonly from: number } | undefined
  let why: Ending = 'ended'
  let gathered: Buffer[] = []
  let size = 0
  for (;;) {
    await reading.room()
    if (signal.aborted && !leaving) {
      leaving = { until: clock.now() + LEAVE_MS, from: socket.bytesRead }
      socket.end()
    }
    const isLate = leaving !== undefined && clock.now() >= leaving.until
    const isOver = isLate && socket.bytesRead - leaving!.from > MOST_ON_ITS_WAY_BYTES
    const bytes = isOver ? null : (socket.read() as Buffer | null)
    if (bytes !== null) {
      gathered.push(bytes)
      size += bytes.length
      if (bytes.length >= LARGE_READ_BYTES && size < MOST_GATHERED_BYTES && reading.mayGather()) {
        await nextTurn()
        continue
      }
    }
    if (size > 0) {
      const frame = framer.push(gathered)
      gathered = []
      size = 0
      if (frame) reading.take(frame)
      reading.pendingChanged()
      if (!framer.problem) continue
      why = 'corrupt'
      break
    }
    if (socket.readableEnded || socket.destroyed) break
    if (isOver) {
      why = 'stopped'
      break
    }
    framer.release()
    const woken = await untilReadable(socket, leaving ? { idleMs: isLate ? 0 : PAUSE_MS } : { signal, idleMs })
    if (woken === 'go') continue
    why = leaving ? 'stopped' : 'idle'
    break
  }
  await reading.room()
  const rest = framer.flush(true)
  if (rest) reading.take(rest)
  reading.pendingChanged()
  framer.release()
  return why
}
