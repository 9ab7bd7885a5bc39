import type { Simulation } from '../simulation.js'
import { KINDS } from './plan.js'
import { type FilesResult, runSeed } from './run.js'

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

/** The file source alone, which follows logs. `hasErrors`: single calls fail. */
export function files(hasErrors: boolean): Simulation {
  const sums = new Map<string, Sum>(KINDS.map(kind => [kind, newSum()]))
  /** In how many worlds a known violation came. */
  const known = new Map<string, number>()
  let [lines, kills] = [0, 0]
  return {
    seeds: 2000,
    async run(seed, traced = false) {
      const result = await runSeed(seed, traced, hasErrors)
      if (traced) return result
      lines += result.lines
      kills += result.kills
      for (const name of result.known.keys()) known.set(name, (known.get(name) ?? 0) + 1)
      add(sums.get(result.kind)!, result)
      return result
    },
    total: () => `${lines} lines, ${kills} kills`,
    lines: () => [
      ...Array.from(sums, ([kind, sum]) => `${kind.padEnd(32)}${shown(sum)}`),
      ...Array.from(known, ([name, worlds]) => `known, in ${worlds} worlds: ${name}`),
    ],
  }
}

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
