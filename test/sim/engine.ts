import { runSeed } from './run.js'
import type { Simulation } from './simulation.js'

/** The engine, with everything around it. */
export function engine(): Simulation {
  const faults = new Map<string, number>()
  let [seeds, tasks] = [0, 0]
  return {
    seeds: 5000,
    async run(seed, traced = false) {
      const result = await runSeed(seed, traced)
      if (traced) return result
      seeds++
      tasks += result.tasks
      for (const [kind, count] of result.faults) faults.set(kind, (faults.get(kind) ?? 0) + count)
      return result
    },
    total() {
      const heap = Math.round(process.memoryUsage().rss / 1024 / 1024)
      return `${Math.round(tasks / seeds)} steps a seed; ${heap} MB`
    },
    lines() {
      const counts = [...faults].sort(([, a], [, b]) => b - a).map(([kind, count]) => `${count} × ${kind}`)
      return [`faults: ${counts.join(', ')}`]
    },
  }
}
