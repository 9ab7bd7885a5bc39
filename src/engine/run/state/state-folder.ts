import { join } from 'node:path'
import type { StateFolder } from '../../../core/component.js'
import type { Runtime } from '../runtime.js'

/** There is nothing in it that is not needed. */
const NOTHING = () => {}

/** The folder with what processors keep. */
export const STATE = 'throttle'

export const stateOf = (dataDir: string, id: string) => join(dataDir, STATE, encodeURIComponent(id))

/** Where a processor keeps its state; undefined if it runs on a clock of its own, whose times mean nothing later. */
export function stateFolder(
  dataDir: string,
  id: string,
  { disk, processorClock }: Pick<Runtime, 'disk' | 'processorClock'>,
): StateFolder | undefined {
  if (processorClock) return undefined
  const path = stateOf(dataDir, id)
  return {
    path,
    hasRoom: bytes => disk?.hasRoom(bytes) ?? true,
    count: (bytes, isLast) => disk?.count(path, bytes, isLast ? undefined : NOTHING),
  }
}
