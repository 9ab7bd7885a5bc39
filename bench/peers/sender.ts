import { once } from 'node:events'
import { openSync, readSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

/**
 * Sends a file over one TCP connection, as fast as the other end takes it.
 *
 * Usage: sender.js FILE PORT
 */

const BLOCK_BYTES = 256 * 1024
const RETRY_MS = 5

const [file, port] = process.argv.slice(2) as [string, string]

/** Tries until somebody listens: the program that is measured is only just starting. */
async function connected(): Promise<Socket> {
  for (;;) {
    const socket = connect(Number(port), '127.0.0.1')
    try {
      await once(socket, 'connect')
      return socket
    } catch {
      await wait(RETRY_MS)
    }
  }
}

const socket = await connected()
const from = openSync(file, 'r')
// Two blocks: one is being sent while the other is being read.
const blocks = [Buffer.allocUnsafe(BLOCK_BYTES), Buffer.allocUnsafe(BLOCK_BYTES)] as const
let sent: Promise<void> = Promise.resolve()
for (let i = 0, length; (length = readSync(from, blocks[i & 1]!, 0, BLOCK_BYTES, null)) > 0; i++) {
  const block = blocks[i & 1]!.subarray(0, length)
  const before = sent
  sent = new Promise((resolve, reject) => socket.write(block, error => (error ? reject(error) : resolve())))
  await before
}
await sent
socket.end()
await once(socket.resume(), 'close')
