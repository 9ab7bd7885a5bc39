import { UsageError } from '../../daemon/process/command-line.js'
import { parseDuration } from '../../lib/units.js'

const SHORTEST_MS = 100

/** The value of --interval in milliseconds; throws UsageError. */
export function intervalOf(text: string, command: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= SHORTEST_MS) return ms
  const hint = /^\d+(\.\d+)?$/.test(text) ? ` and has a unit; write --interval ${text}s for seconds` : ', as in 10s'
  throw new UsageError(`--interval is a duration of at least ${SHORTEST_MS}ms${hint}`, command)
}
