import { open } from 'node:fs/promises'
import { errorCode } from '../../../core/errors.js'
import type { LetterRecord } from '../../../engine/run/dead-letter/record.js'
import { jsonText } from '../../../lib/formats/json-text.js'
import { parsed } from './find.js'

/** Maximum bytes read from the end of a file. */
const MOST_BYTES = 1024 * 1024
const LONGEST_SAMPLE = 4096
const MOST_REASONS = 100
const LF = 0x0a

export interface LetterReason {
  readonly reason: string
  /** The receiver's message about the newest event. It may quote the event. */
  readonly words: string | undefined
  count: number
  readonly newest_at: string
  /** The newest event, or the beginning of its JSON. */
  readonly sample: unknown
}

export interface Letters {
  /** Number of inspected events. Older events are not counted in `reasons`. */
  readonly looked_at: number
  readonly all: boolean
  readonly reasons: readonly LetterReason[]
}

/** Reads the end of a dead-letter file. `hasTexts`: whether to return samples of the events, and messages. */
export async function newestLetters(path: string, hasTexts: boolean): Promise<Letters> {
  const { bytes, all } = await endOf(path)
  const reasons = new Map<string, LetterReason>()
  let looked_at = 0
  for (const record of recordsOf(bytes)) {
    const { reason, error, time, event } = record
    looked_at++
    const known = reasons.get(reason)
    if (known) known.count++
    else if (reasons.size < MOST_REASONS)
      reasons.set(reason, {
        reason,
        words: hasTexts ? String(error) : undefined,
        count: 1,
        newest_at: String(time),
        sample: hasTexts ? sampleOf(event) : undefined,
      })
  }
  return { looked_at, all, reasons: [...reasons.values()] }
}

function* recordsOf(bytes: Buffer): Generator<LetterRecord> {
  for (let end = bytes.lastIndexOf(LF); end > 0; ) {
    const start = bytes.lastIndexOf(LF, end - 1)
    const record = parsed(bytes.toString('utf8', start + 1, end)) as LetterRecord | null | undefined
    if (typeof record?.reason === 'string') yield record
    end = start
  }
}

function sampleOf(event: unknown): unknown {
  const text = jsonText(event) ?? ''
  return text.length <= LONGEST_SAMPLE ? event : text.slice(0, LONGEST_SAMPLE)
}

async function endOf(path: string): Promise<{ bytes: Buffer; all: boolean }> {
  try {
    const file = await open(path, 'r')
    try {
      const { size } = await file.stat()
      const from = Math.max(0, size - MOST_BYTES)
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from)
      const bytes = buffer.subarray(0, bytesRead)
      // The first line may be cut.
      return { bytes: from === 0 ? bytes : bytes.subarray(bytes.indexOf(LF) + 1), all: from === 0 }
    } finally {
      await file.close()
    }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    return { bytes: Buffer.alloc(0), all: true }
  }
}
