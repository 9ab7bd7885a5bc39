import type { IncomingMessage, ServerResponse } from 'node:http'
import { readBody } from '../../net/http/server/body.js'
import { Refusal } from '../../net/http/server/refusal.js'
import type { Access } from './access.js'

const MOST_BYTES = 1024
/** The path of the page, relative to the path of a session, because a proxy may serve both below another path. */
const PAGE = '../../'
/** Bodies of at most MOST_BYTES do not need a quota, because the number of connections is limited. */
const LEASE = { hold() {}, received() {}, release() {} }

/** Exchanges the token for a cookie. If no script sent the form, redirects to the page. Throws a Refusal. */
export async function beginSession(request: IncomingMessage, response: ServerResponse, access: Access): Promise<void> {
  const { headers } = request
  const isForm = headers.accept?.includes('text/html') ?? false
  const { bytes, size } = await readBody(request, { maxBytes: MOST_BYTES, lease: LEASE, onBegin() {} })
  const token = tokenIn(bytes.toString('utf8', 0, size), headers['content-type'])
  try {
    const cookie = await access.begin(token, headers)
    const about = { 'set-cookie': cookie, 'content-length': 0 }
    if (isForm) response.writeHead(303, { ...about, location: PAGE }).end()
    else response.writeHead(204, { 'set-cookie': cookie }).end()
  } catch (error) {
    if (!isForm || !(error instanceof Refusal) || error.status !== 401) throw error
    response.writeHead(303, { location: `${PAGE}?wrong`, 'content-length': 0 }).end()
  }
}

function tokenIn(body: string, type = ''): string {
  let token: unknown
  try {
    token = /\bjson\b/.test(type)
      ? (JSON.parse(body) as { token?: unknown } | null)?.token
      : new URLSearchParams(body).get('token')
  } catch {
    // An invalid body is refused like a body without a token.
  }
  if (typeof token === 'string' && token !== '') return token.trim()
  throw new Refusal(400, 'invalid', 'send the token as a form, token=…, or as JSON, {"token": "…"}')
}
