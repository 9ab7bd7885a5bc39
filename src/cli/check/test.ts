import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorText } from '../../core/errors.js'
import { loadDaemonConfig } from '../../daemon/managed/local-part.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { createLog } from '../../daemon/process/log.js'
import { cutAt } from '../../daemon/process/wrap.js'
import type { TestEvent } from '../../engine/config/test-options.js'
import { printable, printableText } from '../../lib/printable.js'
import { sharesLimits } from './own-buckets.js'
import { isExpected, type ReachedEvent, runTest } from './test-run.js'

const SHOWN_LINES = 40
/** Lists with more entries than this are compared position by position. */
const ALIGNED = 2000

/** Runs the tests of a configuration. Resolves with exit code 1 if a test fails. */
export async function test(path: string, io: Io): Promise<number> {
  const config = await loadDaemonConfig(path, io.env)
  const { tests } = config
  if (tests.length === 0) {
    io.stderr.write(`${path}: there are no tests: the section "tests" is missing or empty\n`)
    return EXIT.failed
  }
  const log = createLog(io, { format: config.logFormat, level: 'error' })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  for (const { id } of config.processors.filter(sharesLimits))
    io.stderr.write(`${id}: tested as a single daemon that has the whole limits of its cluster; no server is asked\n`)
  let failed = 0
  try {
    for (const [i, test] of tests.entries()) {
      let faults: string[]
      try {
        const left = await runTest(config, test, join(folder, String(i)), log, io)
        faults = Object.entries(test.expect).flatMap(([output, wanted]) => compare(output, wanted, left.get(output)!))
      } catch (error) {
        faults = [errorText(error)]
      }
      io.stdout.write(`${faults.length === 0 ? 'ok    ' : 'failed'} ${printable(test.name)}\n`)
      for (const fault of faults) io.stdout.write(`${printableText(fault).replace(/^/gm, '       ')}\n`)
      if (faults.length > 0) failed++
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  io.stdout.write(`${tests.length - failed} passed, ${failed} failed\n`)
  return failed === 0 ? EXIT.done : EXIT.failed
}

/** The differences in readable form; empty if there are none. */
function compare(output: string, wanted: number | readonly TestEvent[], left: readonly ReachedEvent[]): string[] {
  if (typeof wanted === 'number') {
    if (left.length === wanted) return []
    return [`${output}: ${left.length} events, expected ${wanted}`, ...cut(left.map(event => `  ${shown(event.line)}`))]
  }
  const lines = difference(wanted, left)
  if (lines.every(line => line.startsWith(' '))) return []
  const head = `${output}: not the expected events ( - missing, + unexpected )`
  return [head, ...cut(lines)]
}

/** Merges both lists into lines of text. Two entries that match become one line. */
function difference(wanted: readonly TestEvent[], left: readonly ReachedEvent[]): string[] {
  const same = (i: number, j: number) => isExpected(left[j]!, wanted[i]!)
  const [n, m] = [wanted.length, left.length]
  const lines: string[] = []
  let [i, j] = [0, 0]
  const aligned = n <= ALIGNED && m <= ALIGNED
  // common[i][j]: the maximum number of entries of wanted[i…] that match entries of left[j…] in the same order.
  const common = aligned ? Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)) : []
  for (let a = aligned ? n - 1 : -1; a >= 0; a--)
    for (let b = m - 1; b >= 0; b--)
      common[a]![b] = same(a, b) ? common[a + 1]![b + 1]! + 1 : Math.max(common[a + 1]![b]!, common[a]![b + 1]!)
  while (i < n || j < m) {
    if (i < n && j < m && same(i, j)) {
      lines.push(`  ${shown(left[j]!.line)}`)
      i++
      j++
    } else if (i < n && (j === m || !aligned || common[i + 1]![j]! >= common[i]![j + 1]!)) {
      const event = wanted[i++]!
      lines.push(`- ${shown(typeof event === 'string' ? event : JSON.stringify(event))}`)
      if (!aligned && j < m) lines.push(`+ ${shown(left[j++]!.line)}`)
    } else lines.push(`+ ${shown(left[j++]!.line)}`)
  }
  return lines
}

function shown(line: string): string {
  return line.length <= 200 ? line : `${cutAt(line, 200)}…`
}

function cut(lines: readonly string[]): string[] {
  if (lines.length <= SHOWN_LINES) return lines.map(line => `  ${line}`)
  return [...lines.slice(0, SHOWN_LINES).map(line => `  ${line}`), `  … and ${lines.length - SHOWN_LINES} more`]
}
