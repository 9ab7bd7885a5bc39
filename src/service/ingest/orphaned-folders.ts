import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'

/** Names the folders in `folder` that belong to none of the pipelines: they may hold events, and are left alone. */
export async function tellOrphanedFolders(folder: string, pipelines: ReadonlySet<string>, log: Logger): Promise<void> {
  const names = existsSync(folder) ? await readdir(folder) : []
  for (const name of names) {
    if (pipelines.has(name)) continue
    const text = 'a folder belongs to no pipeline of the service; remove it if its events are not needed'
    log.warn({ code: 'SLUICE_ORPHANED_PIPELINE', folder: join(folder, name) }, text)
  }
}
