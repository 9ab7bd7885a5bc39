import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../../lib/files/make-folder.js'
import type { Config } from '../config/load.js'
import { ComponentSet } from '../flow/counters.js'
import { Engine, type Runtime } from './engine.js'

const DRY_RUN = 'dry-run-'

/** Creates all components in a temporary folder of data_dir, and releases them. Throws if one cannot be created. */
export async function dryRun(config: Config, runtime: Omit<Runtime, 'metrics'>): Promise<void> {
  await makeFolder(config.dataDir, 0o700)
  // Removes the folders of dry runs that were killed.
  for (const name of readdirSync(config.dataDir))
    if (name.startsWith(DRY_RUN)) rmSync(join(config.dataDir, name), { recursive: true, force: true })
  const dataDir = mkdtempSync(join(config.dataDir, DRY_RUN))
  try {
    const log = runtime.log.child({}, { level: 'silent' })
    const isolated = { ...runtime, log, metrics: new ComponentSet(), disk: undefined }
    const engine = await Engine.build({ ...config, dataDir }, isolated)
    await engine.discard()
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}
