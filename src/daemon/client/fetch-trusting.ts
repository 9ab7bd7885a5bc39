import { request } from 'node:https'
import { Readable } from 'node:stream'

/** Statuses that never have a body. With such a status, the constructor of Response rejects a body. */
const WITHOUT_BODY = [204, 205, 304]

type Trusted = Buffer | string

/**
 * Returns a fetch for https that trusts only the authorities in `ca`, or those of Node.js if `ca` is undefined. The
 * built-in fetch cannot do this, and if NODE_TLS_REJECT_UNAUTHORIZED is 0, it sends the key to any server.
 */
export function fetchTrusting(ca?: () => Trusted | Promise<Trusted>): typeof globalThis.fetch {
  return async (input, { method = 'GET', headers, body, signal } = {}) => {
    const trusted = await ca?.()
    return await new Promise<Response>((resolve, reject) => {
      const options = {
        method,
        headers: Object.fromEntries(new Headers(headers)),
        ca: trusted,
        rejectUnauthorized: true,
        agent: false as const,
        ...(signal && { signal }),
      }
      const sent = request(String(input), options, answer => {
        const { statusCode: status = 0, rawHeaders } = answer
        const found = new Headers()
        for (let i = 0; i < rawHeaders.length; i += 2) found.append(rawHeaders[i]!, rawHeaders[i + 1]!)
        const hasBody = !WITHOUT_BODY.includes(status)
        if (!hasBody) answer.resume()
        try {
          const body = hasBody ? (Readable.toWeb(answer) as ReadableStream) : null
          resolve(new Response(body, { status, headers: found }))
        } catch (error) {
          answer.destroy()
          reject(error)
        }
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }
}
