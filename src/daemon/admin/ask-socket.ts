import type { IncomingMessage, RequestOptions } from 'node:http'
import { request as sendRequest } from '../../lib/network/node-http.js'
import { shortPath } from '../../lib/network/short-path.js'

/** Sends a request to the server at `path`. Resolves before the body of the response is read. */
export function askSocket(
  path: string,
  request: Pick<RequestOptions, 'path' | 'method' | 'signal'>,
  body?: string,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { short, release } = shortPath(path)
    // No agent, because it would cache the connection under the short path, which may later lead to another folder.
    const call = sendRequest({ ...request, socketPath: short, agent: false }, answer => {
      release()
      resolve(answer)
    })
    call.once('error', error => {
      release()
      reject(error)
    })
    // Ignored, because a response that breaks off reports the error itself.
    call.on('error', () => {})
    call.end(body)
  })
}

export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of answer.setEncoding('utf8')) text += part
  return text
}
