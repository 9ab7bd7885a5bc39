import type { Socket } from 'node:net'

/** What a server may send without being asked for it, such as the slots of a large Redis Cluster. */
const MOST_BYTES = 16 * 1024 * 1024
/** What it may send for each byte that it was sent. What it is asked takes more bytes than what it replies. */
const PER_SENT_BYTE = 4

/**
 * Ends a connection on which the server sends more than it can have been asked for: the client would keep all of a reply
 * that does not end, and nobody waits for one that was not asked for. An option of a socket: a constructor of streams.
 */
export function construct(this: Socket, done: () => void): void {
  let left = MOST_BYTES
  let sent = 0
  this.on('data', chunk => {
    const { bytesWritten } = this
    left = Math.min(MOST_BYTES, left + (bytesWritten - sent) * PER_SENT_BYTE) - chunk.length
    sent = bytesWritten
    if (left < 0) this.destroy(new Error('the server sends what it was not asked for'))
  })
  done()
}
