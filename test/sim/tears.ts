import type { ComponentCounters } from '../../src/engine/flow/counters.js'
import { outputOf } from './configuration.js'
import { isWhole } from './expected.js'
import type { Machine } from './machine.js'
import type { Topology } from './topology.js'

/**
 * Torn lines in the files of file destinations. A kill or a power failure may leave one, and so may a write that failed, if its repair
 * failed too, and it is counted. What else is torn is a violation.
 */
export class Tears {
  readonly #machine: Machine
  /** How many lines of each file were torn, when the last process had ended and the power was on again. */
  readonly #before = new Map<string, number>()

  constructor(machine: Machine) {
    this.#machine = machine
  }

  /** A process has ended, and left its files like this. */
  check({ destinations }: Topology, components: ReadonlyMap<string, ComponentCounters>): void {
    const { world, disk } = this.#machine
    for (const { id, kind } of destinations) {
      if (kind !== 'file') continue
      const counted = tornWrites(components.get(id))
      const excused = disk.failedRepairs.get(outputOf(id)) ?? 0
      if (counted > excused) world.violate(`${id}: ${counted} failed writes left a part, and ${excused} repairs failed`)
      const { torn } = this.#linesOf(id)
      const before = this.#before.get(id) ?? 0
      if (torn > before + counted) world.violate(`${id}: ${torn} torn lines, and ${before} + ${counted} have a reason`)
    }
  }

  /** What is torn now was torn by the end of the process. */
  excuse({ destinations }: Topology): void {
    for (const { id, kind } of destinations) {
      if (kind !== 'file') continue
      const { torn, isOpen } = this.#linesOf(id)
      this.#before.set(id, torn + (isOpen ? 1 : 0))
    }
  }

  #linesOf(id: string): { torn: number; isOpen: boolean } {
    const file = this.#machine.disk.tree.files('/out').get(outputOf(id))
    const lines = file?.content.toString('latin1').split('\n') ?? ['']
    const last = lines.pop()
    return { torn: lines.filter(line => line !== '' && !isWhole(line)).length, isOpen: last !== '' }
  }
}

/** Failed writes that left a part in the file. */
function tornWrites(counters: ComponentCounters | undefined): number {
  let torn = 0
  for (const { read } of counters?.series.get('sluice_file_torn_writes_total') ?? [])
    for (const { value } of read()) torn += value
  return torn
}
