import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'

/** What the figures depend on besides the programs. */
export interface Machine {
  readonly cores: number
  readonly cpu: string
  readonly memory_gib: number
  readonly kernel: string
  readonly system: string
  readonly node: string
  /** Load averages before the first run: what else the machine was doing. */
  readonly load: readonly number[]
}

export function describeMachine(): Machine {
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    memory_gib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    system: systemName(),
    node: process.versions.node,
    load: loadavg().map(load => Number(load.toFixed(2))),
  }
}

function systemName(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'unknown'
  } catch {
    return 'unknown'
  }
}

/** One or two lines about the machine. */
export function formatMachine({ cores, cpu, memory_gib: memory, kernel, system, node, load }: Machine): string {
  return `${cores} cores of ${cpu}, ${memory} GiB, Linux ${kernel}, ${system}, Node.js ${node}; load before: ${load.join(', ')}.`
}
