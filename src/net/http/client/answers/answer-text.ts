import type { Readable } from 'node:stream'

const TEXT_BYTES = 4096
const TEXT_CHARACTERS = 300
/** Most bytes read in order to reuse a connection. */
const DRAIN_BYTES = 128 * 1024

/** Discards the rest of a response whose status says enough, which makes its connection reusable. */
export async function drain(body: Readable): Promise<void> {
  let bytes = 0
  await readBody(body, part => {
    bytes += part.length
    return bytes <= DRAIN_BYTES
  })
}

/**
 * Reads a body to its end, or until `take` returns false; then its connection is closed. Resolves with the error if the
 * body breaks off.
 */
export function readBody(body: Readable, take: (part: Buffer) => boolean): Promise<unknown> {
  return new Promise(resolve => {
    const end = () => resolve(undefined)
    body.on('data', part => {
      if (take(part)) return
      end()
      body.destroy()
    })
    body.on('error', resolve).on('end', end).on('close', end)
  })
}

/** The beginning of the body as one line. */
export async function bodyText(body: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  await readBody(body, part => {
    chunks.push(part)
    bytes += part.length
    return bytes < TEXT_BYTES
  })
  return oneLine(Buffer.concat(chunks))
}

/** The beginning of untrusted text as one line. */
export function oneLine(bytes: Buffer): string {
  return bytes
    .toString('utf8', 0, TEXT_BYTES)
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
}

export function cutText(text: string): string {
  return text.length > TEXT_CHARACTERS ? `${text.slice(0, TEXT_CHARACTERS)}...` : text
}
