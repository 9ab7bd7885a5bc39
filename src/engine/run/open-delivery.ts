import type { ComponentContext, Destination } from '../../core/component.js'
import type { WantedNames } from '../../lib/formats/json-scan.js'
import type { ComponentConfig, Config } from '../config/load.js'
import type { ComponentCounters } from '../flow/counters.js'
import type { DeadLetters } from '../flow/dead-letters.js'
import { Delivery } from '../flow/delivery/delivery.js'
import type { OutageState } from '../flow/delivery/outage.js'
import type { DiskBuffer } from '../flow/disk-buffer/disk-buffer.js'
import { folderOnDisk } from '../flow/disk-buffer/files.js'
import { bufferFolder } from '../flow/disk-buffer/folder.js'
import { reportLeftOut } from './left-out.js'
import type { Runtime } from './runtime.js'

interface DeliveryParts extends Pick<ComponentContext, 'log'> {
  readonly metrics: ComponentCounters
  readonly buffer: DiskBuffer | undefined
  readonly deadLetter: DeadLetters
  readonly outage: OutageState | undefined
}

/** The delivery to a destination, with its counters. */
export function openDelivery(
  { id, delivery, options }: ComponentConfig,
  destination: Destination,
  { clock, random, requests }: Runtime,
  { log, metrics, buffer, deadLetter, outage }: DeliveryParts,
): Delivery {
  reportLeftOut(options as object, { log, clock, metrics })
  const counters = {
    received: (events: number, bytes: number) => (buffer ? buffer.takenUp(events, bytes) : metrics.took(events, bytes)),
    sent: (events: number, bytes: number) => metrics.sent(events, bytes),
    discarded: (reason: string, events: number, bytes: number) => metrics.discarded(reason, events, bytes),
    failed: (kind: string) => metrics.failed(kind),
  }
  const shared = { id, log, clock, random, requests, metrics }
  return new Delivery(destination, delivery!, { ...shared, deadLetter, counters, outage })
}

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
