import { chmodSync, closeSync, constants, openSync, rmSync } from 'node:fs'
import http, { type IncomingMessage, type RequestOptions, type Server } from 'node:http'
import { basename, dirname, join, relative } from 'node:path'

/**
 * HTTP at Unix sockets, where a process is looked into and administered without a port: who may act as its user may
 * ask. A path of any length will do, though the system takes short ones only.
 */

/** Where a daemon is looked into. */
export function socketPath(dataDir: string): string {
  return join(dataDir, 'sluice.sock')
}

/** What the address of a Unix socket may have on every platform, without its end. */
const LONGEST_PATH = 100

/** A way to name `path` that is short enough for a socket, until it is let go of. */
function shortPath(path: string): { short: string; release: () => void } {
  const isShort = (text: string) => Buffer.byteLength(text) <= LONGEST_PATH
  if (isShort(path)) return { short: path, release: () => {} }
  const near = relative(process.cwd(), path)
  if (isShort(near)) return { short: near, release: () => {} }
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  let held = true
  const release = () => {
    if (held) closeSync(folder)
    held = false
  }
  return { short: `/proc/self/fd/${folder}/${basename(path)}`, release }
}

/**
 * Lets the server listen at `path`, for the owner alone. What another process has left there is taken away: the caller
 * has the lock of the folder. Throws when it cannot be. The socket goes when the server is closed.
 */
export async function listenAtSocket(server: Server, path: string): Promise<void> {
  rmSync(path, { force: true })
  const { short, release } = shortPath(path)
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      // The mode is right from the first moment: others could connect until it was changed.
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
  // Its end takes the socket away, by the name that it was given.
  server.once('close', release)
  server.on('error', () => {})
  chmodSync(path, 0o600)
}

/** Asks whoever listens at `path`; the body of the answer is still to be read. */
export function askSocket(
  path: string,
  request: Pick<RequestOptions, 'path' | 'method' | 'signal'>,
  body?: string,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { short, release } = shortPath(path)
    // No agent: a connection that it keeps is known by the short path, which may name another folder next time.
    const call = http.request({ ...request, socketPath: short, agent: false }, answer => {
      release()
      resolve(answer)
    })
    call.once('error', error => {
      release()
      reject(error)
    })
    // An answer that breaks off says so itself.
    call.on('error', () => {})
    call.end(body)
  })
}

/** The whole body as text. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of answer.setEncoding('utf8')) text += part
  return text
}
