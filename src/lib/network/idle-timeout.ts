import type { Socket } from 'node:net'

/** Emits `timeout` on the socket once nothing was sent or received for `ms`; 0: never. Replaces an earlier time. */
export function setIdleTimeout(socket: Socket, ms: number): void {
  socket.setTimeout(ms)
}
