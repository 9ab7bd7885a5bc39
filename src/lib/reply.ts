import type { ServerResponse } from 'node:http'

/** What a header value may hold as it is: printable ASCII without spaces and without the percent sign. */
const NOT_PLAIN = /[^\x21-\x24\x26-\x7e]/

/**
 * Text of any characters as a header value. Bytes of its UTF-8 form that are not printable ASCII, spaces and percent signs
 * are percent-encoded, so `decodeURIComponent` returns the text. Lone surrogates become U+FFFD.
 */
export function headerText(text: string): string {
  if (!NOT_PLAIN.test(text)) return text
  let encoded = ''
  for (const byte of Buffer.from(text)) {
    const character = String.fromCharCode(byte)
    encoded += NOT_PLAIN.test(character) ? `%${byte.toString(16).toUpperCase().padStart(2, '0')}` : character
  }
  return encoded
}

/**
 * Runs `write`, which writes a reply. If it throws, `failed` gets the error and the client gets the reply of `failReply`, with `headers`.
 * Returns whether the reply was written.
 */
export function writeReply(
  response: ServerResponse,
  write: () => void,
  failed: (error: unknown) => void,
  headers: Readonly<Record<string, string>> = {},
): boolean {
  try {
    write()
    return true
  } catch (error) {
    try {
      failed(error)
    } finally {
      failReply(response, headers)
    }
    return false
  }
}

/** Answers 500, or destroys the connection when a part of another reply has been sent already. */
export function failReply(response: ServerResponse, more: Readonly<Record<string, string>> = {}): void {
  if (response.writableEnded || response.destroyed) return
  try {
    if (response.headersSent) throw new Error('the head has been sent')
    for (const name of response.getHeaderNames()) response.removeHeader(name)
    const body = `${JSON.stringify({ code: 'failed', message: 'the reply could not be written', errors: [] })}\n`
    const length = Buffer.byteLength(body)
    const headers = { ...more, 'content-type': 'application/json', 'content-length': length, connection: 'close' }
    response.writeHead(500, headers).end(response.req.method === 'HEAD' ? '' : body)
  } catch {
    response.destroy()
  }
}
