import type { Socket } from 'node:net'
import type { Frame } from '../../lib/lines/line-splitter.js'
import { pushPortion } from '../../lib/lines/portions.js'
import { SOCKET_READ_BYTES } from '../../lib/network/shared-reads.js'
import { REFUSED, StreamReader } from '../../lib/network/stream-reader.js'
import type { Clock } from '../../lib/time.js'
import type { Framer } from './octet-splitter.js'

/** When a run ends, a sender may continue for LEAVE_MS. If the sender pauses for PAUSE_MS, it is cut off earlier. */
const LEAVE_MS = 2000
const PAUSE_MS = 250
/** Maximum bytes in transit when a run ends. If a connection has sent more since then, it is closed after LEAVE_MS. */
const MOST_ON_ITS_WAY_BYTES = 32 * 1024 * 1024

export interface FramedReading {
  readonly socket: Socket
  readonly framer: Framer
  readonly clock: Clock
  /** How long a connection may be idle before it is closed; undefined: without limit. */
  readonly idleMs: number | undefined
  /** Returns undefined if frames can be accepted now. Otherwise, reading waits until the returned promise resolves. */
  room(): Promise<void> | undefined
  take(frame: Frame): void
  pendingChanged(): void
}

/** Why a connection is closed. corrupt: its next bytes cannot be divided into messages. */
type Ending = 'ended' | 'idle' | 'stopped' | 'corrupt'

/**
 * Reads a connection until the connection ends. Pauses while no more frames can be accepted. When the signal aborts,
 * half-closes the connection to notify the sender, but still reads data in transit.
 */
export async function readConnection(reading: FramedReading, signal: AbortSignal): Promise<Ending> {
  const { socket, framer, clock, idleMs } = reading
  const room = () => reading.room()
  let leaving: { readonly until: number; readonly from: number } | undefined
  const isLate = () => leaving !== undefined && clock.now() >= leaving.until
  const take = (bytes: Buffer): number => {
    const taken = pushPortion(framer, bytes, frame => reading.take(frame))
    reading.pendingChanged()
    if (bytes.length < SOCKET_READ_BYTES) framer.release()
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
