import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { findOrphans } from '../../../engine/run/state/inventory.js'
import { StoreError } from './store.js'

/** Throws StoreError if `dataDir`, which may be a backup, has a LevelDB store from an earlier version. */
export async function requireNone(dataDir: string, log: Logger): Promise<void> {
  if (!(await stat(join(dataDir, 'store', 'CURRENT')).catch(() => undefined))) return
  const held = await undelivered(join(dataDir, 'ingest'), log)
  const events = held.reduce((sum, one) => sum + one.events, 0)
  const first =
    held.length === 0
      ? 'The disk buffers of its pipelines are empty.'
      : `The disk buffers of its pipelines hold ${events} events that are not delivered yet (${held.map(({ id }) => id).join(', ')}): deliver them first. Start the earlier version with this data_dir, send it no events, and stop it when sluice_buffer_events is 0.`
  const message = `data_dir ${dataDir} has a store of an earlier version, which this version cannot read. ${first} Then set another data_dir, run "sluice admin init", and create accounts, keys and pipelines again`
  throw new StoreError('SLUICE_STORE_UNUSABLE', message)
}

/** Pipelines with events in the disk buffers of their destinations. */
async function undelivered(ingest: string, log: Logger): Promise<{ id: string; events: number }[]> {
  const none = { sources: [], processors: [], destinations: [], discardOrphans: [] }
  const found: { id: string; events: number }[] = []
  for (const id of (await readdir(ingest).catch(() => [])).sort()) {
    const buffers = await findOrphans({ ...none, dataDir: join(ingest, id, 'state') }, log, ['buffer'])
    // Includes buffers that cannot be read.
    if (buffers.length > 0) found.push({ id, events: buffers.reduce((sum, { events = 0 }) => sum + events, 0) })
  }
  return found
}
