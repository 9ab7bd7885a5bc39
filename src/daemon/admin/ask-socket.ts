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
    // An agent would cache connections by the short path, and this path may lead to another folder next time.
    const call = sendRequest({ ...request, socketPath: short, agent: false }, answer => {
      release()
      resolve(answer)
    })
    call.once('error', error => {
      release()
      reject(error)
    })
    // If the response breaks off, it reports the error itself.
    call.on('error', () => {})
    call.end(body)
  })
}

export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of answer.setEncoding('utf8')) text += part
  return text
}
