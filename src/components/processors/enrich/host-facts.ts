import { readFile } from 'node:fs/promises'
import { arch, availableParallelism, hostname, platform, release, totalmem } from 'node:os'

/** Reads a fact about this machine; undefined: the fact is unknown on this machine. */
type Fact = () => string | number | undefined | Promise<string | undefined>

const FACTS = {
  hostname,
  os: platform,
  kernel: release,
  architecture: arch,
  cpus: availableParallelism,
  memory_bytes: totalmem,
  machine_id: () => firstLine('/etc/machine-id'),
  boot_id: () => firstLine('/proc/sys/kernel/random/boot_id'),
  time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
} satisfies Record<string, Fact>

export const FACT_NAMES = Object.keys(FACTS) as (keyof typeof FACTS)[]

export async function hostFacts(names: readonly (keyof typeof FACTS)[]): Promise<Record<string, unknown>> {
  const facts = await Promise.all(names.map(async name => [name, await FACTS[name]()] as const))
  return Object.fromEntries(facts.filter(([, value]) => value !== undefined))
}

async function firstLine(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).split('\n', 1)[0] || undefined
  } catch {
    return undefined
  }
}
