import type { MadeLines } from '../../core/explain.js'
import { CONTINUES, LineSplitter, PIECE } from '../../lib/lines/line-splitter.js'
import { eventOptions, isEntry, type JournalEntry, lineOf } from './fields.js'
import { LongEntry } from './long-entry.js'
import type { JournaldOptions } from './options.js'

export interface Taken {
  readonly entry: JournalEntry
  /** Names of fields that were truncated. */
  readonly cut: readonly string[]
}

/** Divides the output of journalctl into entries, with bounded memory. */
export class EntryReader {
  invalidLines = 0
  readonly #maxBytes: number
  readonly #splitter: LineSplitter
  #long: LongEntry | undefined

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
    this.#splitter = new LineSplitter(maxBytes)
  }

  push(bytes: Buffer): Taken[] {
    const frame = this.#splitter.push(bytes)
    if (!frame) return []
    const { chunk, length, starts, ends, flags } = frame
    const taken: Taken[] = []
    for (let i = 0; i < length; i++) {
      if (flags[i]! & (PIECE | CONTINUES)) {
        this.#long ??= new LongEntry(this.#maxBytes)
        this.#long.push(chunk.subarray(starts[i]!, ends[i]!))
        if (flags[i]! & PIECE) continue
        taken.push(this.#long.finish())
        this.#long = undefined
        continue
      }
      const entry = entryIn(chunk.toString('utf8', starts[i]!, ends[i]!))
      if (entry) taken.push({ entry, cut: [] })
      else this.invalidLines++
    }
    frame.release?.()
    return taken
  }

  drop(): void {
    this.#splitter.drop()
  }
}

function entryIn(line: string): JournalEntry | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as JournalEntry) : undefined
  } catch {
    return undefined
  }
}

export function linesOfEntries(options: JournaldOptions, given: Buffer, host: string): MadeLines | undefined {
  const taken = new EntryReader(options.max_entry_bytes).push(Buffer.concat([given, Buffer.from('\n')]))
  if (!taken[0] || !isEntry(taken[0].entry)) return undefined
  const event = eventOptions(options, host)
  const lines = taken.map(({ entry, cut }) => `${lineOf(entry, event, cut)}\n`)
  return { lines: Buffer.from(lines.join('')), of: 'an entry of the journal' }
}
