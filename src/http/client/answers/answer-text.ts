import type { Dispatcher } from 'undici'

const TEXT_BYTES = 4096
const TEXT_CHARACTERS = 300
/** Most bytes read in order to reuse a connection. */
const DRAIN_BYTES = 128 * 1024

/** Discards the rest of a response whose status says enough, which makes its connection reusable. */
export async function drain(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: DRAIN_BYTES }).catch(() => {})
  await connectionFreed()
}

/** undici releases a connection one event loop turn after its response; an earlier request would open another one. */
export function connectionFreed(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** The beginning of the body as one line. */
export async function bodyText(body: Dispatcher.ResponseData['body']): Promise<string> {
  body.on('error', () => {})
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= TEXT_BYTES) break
    }
  } catch {}
  await connectionFreed()
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
