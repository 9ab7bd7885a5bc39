import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import { script } from '../../src/components/processors/script.js'
import type { OnError } from '../../src/core/processor.js'
import { batchOf, collectLines } from './batches.js'
import { loadedStageOf } from './stage.js'

/** What comes out of each output of a script for batches of lines, the counters, and what was logged. */
export async function through(
  t: Test,
  options: object,
  batches: readonly (readonly (string | object)[])[],
  onError: OnError = 'pass',
) {
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line)) })
  const { stage, processor, counters, wanted } = await loadedStageOf(script, options, { onError, log })
  t.teardown(() => processor.stop?.(AbortSignal.abort()))
  const left: Record<string, string[]> = { main: [] }
  const reading = [...stage.outputs].map(([name, output]) => {
    output.connected = true
    left[name] = []
    return pipeline(output, collectLines(left[name]))
  })
  const given = batches.map(lines => batchOf(lines, { wanted }))
  await Promise.all([pipeline(Readable.from(given), stage, collectLines(left.main!)), ...reading])
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return { left, counters, logged }
}

/** The message of the error in each line. */
export const reasonsIn = (lines: readonly string[] = []) =>
  lines.map(line => (JSON.parse(line) as { processing_error?: { message: string } }).processing_error?.message)
