import { makeInput } from './input.js'
import { inTurns, measure, median, SLUICE } from './measure.js'
import { workFolder } from './work.js'

const GRID = Array.from({ length: 20 }, (_, n) => n + 1).join()
const ONE = 'one limit'
const WAYS: Readonly<Record<string, readonly string[]>> = {
  [ONE]: ['--limit=5'],
  '20 limits': [`--limit=${GRID}`],
  '20 limits, sliding': [`--limit=${GRID}`, '--window-mode=sliding'],
  '20 limits, gcra': [`--limit=${GRID}`, '--window-mode=gcra'],
  '3 keys': ['--limit=5', '--key=.host', '--key=.level'],
}

/** How fast `sluice simulate` is: lines a second of CPU time with one limit, and the CPU time of others in relation to it. */
export async function measureSimulate(folder: string, lines: number, runs: number, progress: (text: string) => void) {
  const input = makeInput(workFolder(folder, 'simulate'), lines, progress)
  let rss = 0
  const cpu = await inTurns(Object.keys(WAYS), runs, async (way, round) => {
    progress(`simulate: ${way}, ${round === 0 ? 'warming up' : `run ${round} of ${runs}`}`)
    const call = ['simulate', '--key=.app', '--window=1s', '--time=.timestamp', ...WAYS[way]!, input.path]
    const { cpuSeconds, rssBytes } = await measure([SLUICE, ...call])
    rss = Math.max(rss, rssBytes)
    return cpuSeconds
  })
  const one = cpu.get(ONE)!
  const ratio = (way: string) => median(cpu.get(way)!.map((seconds, round) => seconds / one[round]!))
  return {
    lines,
    lines_per_second: Math.round(lines / median(one)),
    ratios: Object.fromEntries(Object.keys(WAYS).map(way => [way, Math.round(ratio(way) * 100) / 100])),
    rss_mb: Math.round(rss / 1e6),
  }
}
