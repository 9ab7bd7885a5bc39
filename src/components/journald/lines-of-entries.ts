import type { MadeLines } from '../../core/explain.js'
import { EntryReader } from './entries.js'
import { eventOptions, isEntry, lineOf } from './fields.js'
import type { JournaldOptions } from './options.js'

/** The lines that the source would produce from the output of journalctl. */
export function linesOfEntries(options: JournaldOptions, given: Buffer, host: string): MadeLines | undefined {
  const taken = new EntryReader(options.max_entry_bytes).push(Buffer.concat([given, Buffer.from('\n')]))
  if (!taken[0] || !isEntry(taken[0].entry)) return undefined
  const event = eventOptions(options, host)
  const lines = taken.map(({ entry, cut }) => `${lineOf(entry, event, cut)}\n`)
  return { lines: Buffer.from(lines.join('')), of: 'an entry of the journal' }
}
