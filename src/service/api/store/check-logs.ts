import { link, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder, writeAtomic } from '../../../lib/files/atomic-file.js'
import { type Damage, readLog, writeLog } from './level-log.js'
import { StoreError } from './store.js'

/** A log with incomplete writes between complete ones. */
export interface TornLog {
  readonly file: string
  readonly records: readonly Buffer[]
  readonly places: number
}

/**
 * Checks the write-ahead logs of LevelDB in `path`. This must happen before LevelDB opens them: it drops damaged blocks
 * including the valid records in them, reports nothing, and deletes the log. Throws StoreError SLUICE_STORE_DAMAGED if
 * a record that was complete cannot be read any more. Changes nothing.
 */
export async function findTornLogs(path: string): Promise<TornLog[]> {
  const torn: TornLog[] = []
  for (const name of (await readdir(path)).sort()) {
    if (!/^\d+\.log$/.test(name)) continue
    const file = join(path, name)
    const { records, damages } = readLog(await readFile(file))
    const lost = damages.filter(({ incomplete }) => !incomplete)
    if (lost.length > 0) throw damaged(file, lost)
    if (damages.length > 0) torn.push({ file, records, places: damages.length })
  }
  return torn
}

/** Replaces a log with one that has only its complete records. The original is kept beside it as NAME.damaged. */
export async function repairLog(path: string, { file, records }: TornLog): Promise<void> {
  const original = `${file}.damaged`
  const repaired = `${file}.repaired`
  await writeAtomic(repaired, writeLog(records))
  await rm(original, { force: true })
  await link(file, original)
  await rename(repaired, file)
  await syncFolder(path)
}

function damaged(file: string, damages: readonly Damage[]): StoreError {
  const bytes = damages.reduce((sum, damage) => sum + damage.bytes, 0)
  const message =
    `the store is damaged: ${bytes} bytes of ${file}, from offset ${damages[0]!.offset} on, were written completely and cannot be read. ` +
    'Changes are missing, possibly also the revocation of a key. Check the disk, and put a backup in place with "sluice admin restore --replace"'
  return new StoreError('SLUICE_STORE_DAMAGED', message)
}
