import { type IncomingHttpHeaders, type RequestOptions, request } from 'node:http'

export interface Answered {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Sends a request with any headers, also those that `fetch` does not send, on a connection of its own. */
export function asked(
  options: Pick<RequestOptions, 'host' | 'port' | 'socketPath' | 'path' | 'method' | 'headers'>,
  body = '',
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const call = request({ ...options, agent: false }, answer => {
      let text = ''
      answer.setEncoding('utf8').on('data', part => (text += part))
      answer.on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, text }))
      answer.on('error', reject)
    })
    call.on('error', reject)
    call.end(body)
  })
}
