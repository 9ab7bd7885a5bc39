import type { ComponentConfig, Config } from '../config/load.js'
import type { ComponentContext } from '../core/component.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import { folderOnDisk } from '../flow/disk-buffer/files.js'
import { bufferFolder } from '../flow/disk-buffer/folder.js'
import type { WantedNames } from '../lib/formats/json-scan.js'
import type { Runtime } from './runtime.js'

/** Opens the disk buffer of a destination; undefined if it has none. */
export async function openBuffer(
  { id, delivery }: ComponentConfig,
  { dataDir }: Pick<Config, 'dataDir'>,
  runtime: Runtime,
  { log, metrics }: ComponentContext & { readonly metrics: ComponentCounters },
  wanted: WantedNames,
): Promise<DiskBuffer | undefined> {
  const { buffer: options } = delivery!
  if (options.type === 'memory') return undefined
  const { DiskBuffer, memoryFor } = await import('../flow/disk-buffer/disk-buffer.js')
  return await DiskBuffer.open({
    ...runtime,
    folder: folderOnDisk(bufferFolder(dataDir, id)),
    log,
    wanted,
    maxBytes: options.max_bytes,
    whenFull: options.when_full,
    counters: metrics,
    memory: memoryFor(delivery!),
  })
}
