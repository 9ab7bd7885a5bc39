import { NO_FAULTS } from './disk-names.js'
import type { Machine } from './machine.js'
import { MOODS } from './receiver.js'

/** What happens to the disk and the receivers while a process runs. */

const DISK = ['calm', 'calm', 'full', 'errors', 'sync_errors', 'short', 'reads', 'reads', 'names', 'slow'] as const

/** Changes one of them, by chance. */
export function changes(machine: Machine): void {
  const { random, size } = machine.world
  if (random.chance(0.5)) changeDisk(machine)
  for (const receiver of machine.receivers.values()) {
    if (!random.chance(size.moods)) continue
    receiver.mood = random.chance(0.4) ? receiver.healthy : random.pick(MOODS)
    machine.world.say(() => `receiver ${receiver.id}: ${receiver.mood}`)
  }
}

function changeDisk({ disk, world }: Machine): void {
  const { random } = world
  const weather = random.pick(DISK)
  const rate = random.pick([0.02, 0.2, 0.7])
  world.say(() => `disk: ${weather} ${rate}`)
  switch (weather) {
    case 'calm':
      disk.faults = { ...NO_FAULTS }
      break
    case 'full':
      disk.faults = { ...disk.faults, capacity: disk.tree.bytes() + random.below(random.pick([100, 5000])), short: 0.1 }
      break
    case 'errors':
      disk.faults = { ...disk.faults, writes: rate, syncs: rate / 2, names: rate / 2 }
      break
    case 'sync_errors':
      disk.faults = { ...disk.faults, syncs: rate }
      break
    case 'short':
      disk.faults = { ...disk.faults, short: rate, writes: rate / 2 }
      break
    case 'reads':
      disk.faults = { ...disk.faults, reads: random.pick([0.01, 0.1, 0.5]) }
      break
    case 'names':
      disk.faults = { ...disk.faults, names: random.pick([0.3, 0.8]) }
      break
    case 'slow':
      disk.faults = { ...disk.faults, latencyMs: random.pick([20, 200]) }
  }
}

/** Nothing fails any more. */
export function heal({ disk, receivers }: Machine): void {
  disk.faults = { ...NO_FAULTS }
  for (const receiver of receivers.values()) receiver.mood = receiver.healthy
}
