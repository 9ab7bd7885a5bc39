import { readFileSync, writeFileSync } from 'node:fs'

/**
 * Loaded into the measured process by `--import`: at its exit it writes down what the whole process used, to the file
 * that SLUICE_BENCH_USAGE names. The parent cannot ask for it: Node has no wait4.
 */

export interface Usage {
  readonly cpuSeconds: number
  readonly rssBytes: number
}

/** The most memory there was at a time. Linux counts ru_maxrss from before the exec, so the parent's size may show in it. */
function peakBytes(maxRssKib: number): number {
  try {
    const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
    if (kib !== undefined) return Number(kib) * 1024
  } catch {}
  return maxRssKib * 1024
}

const path = process.env.SLUICE_BENCH_USAGE
if (path !== undefined) {
  process.on('exit', () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
    const usage: Usage = { cpuSeconds: (userCPUTime + systemCPUTime) / 1e6, rssBytes: peakBytes(maxRSS) }
    writeFileSync(path, JSON.stringify(usage))
  })
}
