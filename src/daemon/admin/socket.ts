import { chmodSync, rmSync, statSync } from 'node:fs'
import type { Server } from 'node:net'
import { dirname, join } from 'node:path'
import { shortPath } from '../../lib/network/short-path.js'

/**
 * HTTP over Unix sockets, for inspecting and administering a process without a port. Only users who may act as the
 * owner of the socket may connect. The path may have any length, although the system limits the length of socket paths.
 */

/** The path of the socket on which a daemon can be inspected. */
export function socketPath(dataDir: string): string {
  return join(dataDir, 'sluice.sock')
}

/**
 * Makes the server listen at `path`, for the owner only. Removes any file that another process left at `path`, so the
 * caller must hold the lock of the folder. Throws on failure. The socket is removed when the server is closed.
 */
export async function listenAtSocket(server: Server, path: string): Promise<void> {
  // Without this call, the server would report a missing folder as EACCES.
  statSync(dirname(path))
  rmSync(path, { force: true })
  const { short, release } = shortPath(path)
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      // The mode must be right when the socket is created, because other users could connect before a later chmod.
      const mask = process.umask(0o177)
      try {
        server.listen(short, resolve)
      } finally {
        process.umask(mask)
      }
    })
  } catch (error) {
    release()
    throw error
  }
  // Closing the server removes the socket by its short path, so this path must stay valid until the server is closed.
  server.once('close', release)
  server.on('error', () => {})
  chmodSync(path, 0o600)
}
