import type { Dispatcher } from 'undici'

const TEXT_BYTES = 4096
const TEXT_CHARACTERS = 300
/** More than this is not read to keep a connection. */
const DRAIN_BYTES = 128 * 1024

/** Reads the rest of an answer that says enough by its status, so that its connection can be used again. */
export async function drain(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: DRAIN_BYTES }).catch(() => {})
  await connectionFreed()
}

/** undici takes a connection back a turn of the event loop after its answer; a request before that opens another. */
export function connectionFreed(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** The beginning of the body, as one line. */
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

/** The beginning of a text that came from elsewhere, on one line. */
export function oneLine(bytes: Buffer): string {
  return bytes
    .toString('utf8', 0, TEXT_BYTES)
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
}

export function cutText(text: string): string {
  return text.length > TEXT_CHARACTERS ? `${text.slice(0, TEXT_CHARACTERS)}...` : text
}
