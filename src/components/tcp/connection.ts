import type { Socket } from 'node:net'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { pushPortion } from '../../lib/lines/portions.js'
import { READ_BYTES } from '../../lib/network/shared-reads.js'
import { REFUSED, StreamReader } from '../../lib/network/stream-reader.js'
import type { Clock } from '../../lib/time.js'
import type { Framer } from './framer.js'

/** At the end of a run: how long a sender may continue, and how long it may pause. */
const LEAVE_MS = 2000
const PAUSE_MS = 250
/** Bytes that the buffers of both systems may hold when a run ends. After LEAVE_MS, a sender of more is cut off. */
const MOST_ON_ITS_WAY_BYTES = 32 * 1024 * 1024

export interface Reading {
  readonly socket: Socket
  readonly framer: Framer
  readonly clock: Clock
  /** Maximum idle time before the connection is closed. */
  readonly idleMs: number | undefined
  /** Resolves when there may be room; undefined: there is room now. Reading waits for room. */
  room(): Promise<void> | undefined
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
  const room = () => reading.room()
  let leaving: { readonly until: number; readonly from: number } | undefined
  const isLate = () => leaving !== undefined && clock.now() >= leaving.until
  const take = (bytes: Buffer): number => {
    const taken = pushPortion(framer, bytes, frame => reading.take(frame))
    reading.pendingChanged()
    if (bytes.length < READ_BYTES) framer.release()
    const isOver = isLate() && socket.bytesRead - leaving!.from > MOST_ON_ITS_WAY_BYTES
    return framer.problem || isOver ? REFUSED : taken
  }
  const reader = new StreamReader(socket, { take, room })
  let stopped = await reader.read({ signal, idleMs: idleMs === undefined ? undefined : () => idleMs })
  if (stopped === 'aborted') {
    for (let wait; (wait = room()); ) await wait
    leaving = { until: clock.now() + LEAVE_MS, from: socket.bytesRead }
    socket.end()
    stopped = await reader.read({ idleMs: () => (isLate() ? 0 : PAUSE_MS) })
  }
  await reader.release()
  for (let wait; (wait = room()); ) await wait
  const rest = framer.flush(true)
  if (rest) reading.take(rest)
  reading.pendingChanged()
  if (framer.problem) return 'corrupt'
  if (stopped === 'ended') return 'ended'
  return leaving ? 'stopped' : 'idle'
}
