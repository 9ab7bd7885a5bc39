import { KINDS } from './plan.js'
import { type FilesResult, runSeed } from './run.js'

/** `npm run sim -- --files`: lets the file source follow logs on a simulated disk, from seeds. */

interface FilesOptions {
  readonly from: number
  readonly seeds: number
  readonly until: number
  /** Whether seeds that fail are run again with a trace. */
  readonly traces: boolean
  readonly fingerprints: boolean
}

interface Sum {
  worlds: number
  failed: number
  lines: number
  copies: number
  gzips: number
  kills: number
  restarts: number
  deleted: number
}

const REPORT_EVERY_MS = 10_000
const MOST_FAILED = 50

const say = (text: string) => process.stdout.write(`${text}\n`)
const real = performance.now.bind(performance)

export async function traceFiles(seed: number): Promise<number> {
  const result = await runSeed(seed, true)
  for (const line of result.trace) say(line)
  sayFailed(result)
  say(lastLine(result))
  return result.violations.length > 0 ? 1 : 0
}

export async function runFiles({ from, seeds, until, traces, fingerprints }: FilesOptions): Promise<number> {
  const sums = new Map<string, Sum>(KINDS.map(kind => [kind, newSum()]))
  const began = real()
  const known = new Map<string, number>()
  let reported = began
  let failed = 0
  let done = 0
  let [lines, kills] = [0, 0]
  const total = () => {
    const seconds = (real() - began) / 1000
    return `${done} seeds, ${failed} failed, ${(done / seconds).toFixed(1)} a second; ${lines} lines, ${kills} kills`
  }
  for (; done < seeds && real() < until && failed < MOST_FAILED; done++) {
    const result = await runSeed(from + done)
    lines += result.lines
    kills += result.kills
    for (const name of result.known.keys()) known.set(name, (known.get(name) ?? 0) + 1)
    add(sums.get(result.kind)!, result)
    if (fingerprints) say(lastLine(result))
    if (result.violations.length > 0) {
      failed++
      sayFailed(result)
      if (traces) for (const line of (await runSeed(result.seed, true)).trace) say(line)
    }
    if (real() - reported > REPORT_EVERY_MS) {
      reported = real()
      say(total())
    }
  }
  for (const [kind, sum] of sums) say(`${kind.padEnd(32)}${shown(sum)}`)
  for (const [name, worlds] of known) say(`known, in ${worlds} worlds: ${name}`)
  say(total())
  return failed > 0 ? 1 : 0
}

function sayFailed({ seed, kind, violations }: FilesResult): void {
  if (violations.length === 0) return
  say(`seed ${seed} (${kind}):`)
  for (const text of violations.slice(0, 4)) say(`  ${text.split('\n').slice(0, 6).join('\n')}`)
  say(`  npm run sim -- --files --seed ${seed} --trace`)
}

const lastLine = ({ seed, kind, violations, fingerprint }: FilesResult) =>
  `seed ${seed} (${kind}): ${violations.length > 0 ? 'FAILED' : 'ok'}; ${fingerprint}`

function newSum(): Sum {
  return { worlds: 0, failed: 0, lines: 0, copies: 0, gzips: 0, kills: 0, restarts: 0, deleted: 0 }
}

/** Counts worlds, and lines. */
function add(sum: Sum, { violations, lines, deeds, kills, restarts }: FilesResult): void {
  const one = (is: boolean) => (is ? 1 : 0)
  sum.worlds++
  sum.failed += one(violations.length > 0)
  sum.lines += lines
  sum.copies += one(deeds.copies > 0)
  sum.gzips += one(deeds.gzips > 0)
  sum.kills += one(kills > 0)
  sum.restarts += one(restarts > 0)
  sum.deleted += one(deeds.deletedUnread > 0)
}

function shown({ worlds, failed, lines, ...counts }: Sum): string {
  const has = Object.entries(counts).map(([what, count]) => `${count} ${what}`)
  return `${worlds} worlds, ${failed} failed, ${lines} lines; worlds with ${has.join(', ')}`
}
