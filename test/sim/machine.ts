import type { Disk } from './disk-calls.js'
import type { Receiver } from './receiver.js'
import type { ThrottleRecord } from './throttle.js'
import type { Topic } from './topic.js'
import type { World } from './world.js'

/** Everything that a run has outside of the process, which the process finds again when it is started another time. */
export interface Machine {
  readonly world: World
  readonly disk: Disk
  readonly topics: ReadonlyMap<string, Topic>
  readonly receivers: ReadonlyMap<string, Receiver>
  readonly throttles: ReadonlyMap<string, ThrottleRecord>
}

let machine: Machine | undefined

export function useMachine(next: Machine | undefined): void {
  machine = next
}

export function currentMachine(): Machine {
  return machine!
}
