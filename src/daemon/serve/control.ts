import { rmSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../core/errors.js'
import { createServer } from '../../lib/network/node-http.js'
import { failReply, sendReply } from '../../net/http/server/respond.js'
import { ApiError } from '../../service/api/domain/errors.js'
import { askSocket, textOf } from '../admin/ask-socket.js'
import { listenAtSocket } from '../admin/socket.js'

/**
 * Administration of a service that runs: a unix socket in its data_dir, for the user that it runs as. It is HTTP with one
 * path a command, the body an object of JSON, and answers as the envelopes of the API are.
 *
 * The service holds the store's lock while the socket is there, so a socket that is found at its start is left over.
 */

export type Controls = Readonly<Record<string, (input: Readonly<Record<string, unknown>>) => Promise<unknown>>>

const NAME = 'admin.sock'
const LONGEST_BODY = 64 * 1024

export const controlPath = (dataDir: string): string => join(dataDir, NAME)

/** Serves `controls` until the returned function is called. */
export async function serveControls(dataDir: string, log: Logger, controls: Controls): Promise<() => void> {
  const path = controlPath(dataDir)
  const server = createServer((message, response) => {
    answer(message, controls)
      .then(answer => sendReply(response, answer))
      .catch(error => {
        log.error({ url: message.url, error: errorText(error) }, 'cannot answer an administrative command')
        failReply(response)
      })
  })
  await listenAtSocket(server, path).catch(error => {
    throw new Error(`cannot listen on ${path}: ${errorText(error)}`, { cause: error })
  })
  return () => {
    server.close()
    server.closeAllConnections()
    rmSync(path, { force: true })
  }
}

async function answer(message: IncomingMessage, controls: Controls): Promise<{ status: number; body: unknown }> {
  try {
    const name = (message.url ?? '').slice(1)
    const control = Object.hasOwn(controls, name) ? controls[name] : undefined
    if (!control || message.method !== 'POST') throw new ApiError(404, 'not_found', 'this command does not exist')
    return { status: 200, body: (await control(await readInput(message))) ?? {} }
  } catch (error) {
    const status = error instanceof ApiError ? error.status : 500
    const { code, errors } = error instanceof ApiError ? error : { code: 'failed', errors: [] }
    return { status, body: { code, message: errorText(error), errors } }
  }
}

async function readInput(message: IncomingMessage): Promise<Record<string, unknown>> {
  let text = ''
  for await (const part of message.setEncoding('utf8')) {
    text += part
    if (text.length > LONGEST_BODY) throw new ApiError(413, 'body_too_large', 'the body is too large')
  }
  const value: unknown = JSON.parse(text || '{}')
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new ApiError(400, 'invalid_body', 'the body must be an object')
}

/** Asks the service that runs on `dataDir`; undefined when none does. Throws what it refuses. */
export async function callControl(
  dataDir: string,
  name: string,
  input: object,
): Promise<{ body: unknown } | undefined> {
  try {
    const answer = await askSocket(controlPath(dataDir), { path: `/${name}`, method: 'POST' }, JSON.stringify(input))
    const text = await textOf(answer)
    const status = answer.statusCode ?? 0
    const body = JSON.parse(text) as { code?: string; message?: string; errors?: ApiError['errors'] }
    if (status === 200) return { body }
    const { code = 'failed', message = `the service answered ${status}`, errors = [] } = body
    throw new ApiError(status, code, message, { errors })
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return undefined
    if (code === 'EACCES') throw new Error('the service runs as another user: call this as that user', { cause: error })
    throw error
  }
}
