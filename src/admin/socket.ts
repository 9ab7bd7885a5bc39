import { chmodSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { join } from 'node:path'

/** Where a daemon is looked into, without a port: who may read its state may ask. */
export function socketPath(dataDir: string): string {
  return join(dataDir, 'sluice.sock')
}

/** What the address of a Unix socket may have, without its end. */
const LONGEST_PATH = 107

/**
 * Lets the server listen at `path`, for the owner alone. What another process has left there is taken away: the caller
 * has the lock of the folder. Throws when it cannot be.
 */
export async function listenAtSocket(server: Server, path: string): Promise<void> {
  if (Buffer.byteLength(path) > LONGEST_PATH)
    throw new Error(`the path of a socket has at most ${LONGEST_PATH} bytes: ${path}`)
  rmSync(path, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    // The mode is right from the first moment: others could connect until it was changed.
    const mask = process.umask(0o177)
    try {
      server.listen(path, resolve)
    } finally {
      process.umask(mask)
    }
  })
  server.on('error', () => {})
  chmodSync(path, 0o600)
}
