import type { Socket } from 'node:net'
import type { Frame } from '../../lib/line-splitter.js'
import type { Clock } from '../../lib/time.js'
import { untilReadable } from '../../lib/until-readable.js'
import type { Framer } from './framer.js'

/** When the run ends: how long a sender may go on with what it had begun, and how long it may pause then. */
const LEAVE_MS = 2000
const PAUSE_MS = 250

export interface Reading {
  readonly socket: Socket
  readonly framer: Framer
  readonly clock: Clock
  /** How long nothing may come before the connection is closed. */
  readonly idleMs: number | undefined
  /** Resolves when there is room; nothing is read before. */
  room(): Promise<void>
  /** Takes what was read, at once. */
  take(frame: Frame): void
  /** The framer's unfinished message was looked at or has grown. */
  pendingChanged(): void
}

/**
 * Reads one connection to its end, and no faster than there is room. When the signal aborts the sender is told that
 * nothing more is taken; what is on its way is still read.
 */
export async function readConnection(reading: Reading, signal: AbortSignal): Promise<'ended' | 'idle' | 'stopped'> {
  const { socket, framer, clock, idleMs } = reading
  let leaveAt = Number.POSITIVE_INFINITY
  let why: 'ended' | 'idle' | 'stopped' = 'ended'
  for (;;) {
    await reading.room()
    if (signal.aborted && leaveAt === Number.POSITIVE_INFINITY) {
      leaveAt = clock.now() + LEAVE_MS
      socket.end()
    }
    const bytes = clock.now() < leaveAt ? (socket.read() as Buffer | null) : null
    if (bytes !== null) {
      const frame = framer.push(bytes)
      if (frame) reading.take(frame)
      reading.pendingChanged()
      continue
    }
    if (socket.readableEnded || socket.destroyed) break
    if (clock.now() >= leaveAt) {
      why = 'stopped'
      break
    }
    framer.release()
    const leaving = signal.aborted
    const woken = await untilReadable(socket, leaving ? { idleMs: PAUSE_MS } : { signal, idleMs })
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
