import { crc32 } from 'node:zlib'
import { Seeded } from '../support/seeded.js'
import type { Setup } from './scenario.js'

/** The line that every file begins with, when the setup says so. */
export function headerText({ format }: Setup): string {
  return format === 'json' ? '{"opened":"a log"}' : '# opened: a log'
}

/**
 * A line that tells which one it is, and whether all of it is there: file and number, what nobody wrote before, and a
 * checksum. Texts here and everywhere in the model are bytes, one a character (latin1).
 */
export function lineText(id: string, bytes: number, { format }: Setup): string {
  const random = new Seeded(crc32(id))
  let payload = random.chance(0.2) ? Buffer.from('größer ').toString('latin1') : ''
  while (payload.length < bytes) payload += Math.floor(random.next() * 2 ** 31).toString(36)
  payload = payload.slice(0, Math.max(bytes, 8))
  const sum = crc32(`${id} ${payload}`).toString(16)
  return format === 'json' ? `{"id":"${id}","payload":"${payload}","sum":"${sum}"}` : `${id} ${payload} ${sum}`
}

/** Which line a text claims to be, if it has the beginning of one. */
export function idOf(text: string): string | undefined {
  return /^(?:\{"id":")?(f\d+\.\d+)[ "]/.exec(text)?.[1]
}

/** The lines or pieces of lines in the body of a request, or in dead letters, as the bytes that were read. */
export function textsOf(body: Buffer, { format, through }: Setup): string[] {
  const lines = body.toString('latin1').split('\n')
  if (lines.at(-1) === '') lines.pop()
  // Events to which fields were added are sent as JSON.
  return format === 'raw' && through !== 'parse' ? lines : lines.map(textOf)
}

/** What the processor of type parse adds to an event. */
const ADDED = /,"(?:parsed|processing_error)":\{.*\}\}$/

/** Of an event as JSON: a text's message, an object's own line. */
export function textOf(line: string): string {
  let event: { message?: unknown; raw?: unknown }
  try {
    event = JSON.parse(Buffer.from(line, 'latin1').toString()) as typeof event
  } catch {
    return `no JSON: ${line}`
  }
  if (typeof event.raw === 'string') return Buffer.from(event.raw, 'base64').toString('latin1')
  if (typeof event.message === 'string') return Buffer.from(event.message).toString('latin1')
  return line.replace(ADDED, '}')
}
