import { copyFile, lstat, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isMissing } from '../../core/errors.js'
import { syncFolder } from '../../lib/files/atomic-file.js'
import { makeFolder } from '../../lib/files/make-folder.js'

/**
 * Copies the files of published pipelines (buffers, dead-letter queues) while the pipelines run. The copy must never
 * show an undelivered event as delivered, so the ledger of a buffer is copied before its segments. After a restore,
 * events that were delivered after the copy are delivered again.
 */

/** Name of the folder in the data_dir of the service, and in a backup. */
export const INGEST_FOLDER = 'ingest'
/** Files usable only by the process that created them. */
const OF_A_PROCESS = /^lock[.-]|\.sock$/
const FIRST = 'ledger'
/** Maximum attempts to copy a folder whose files are renamed or removed meanwhile. */
const TRIES = 5

/** Adds the folder of all pipelines in `dataDir` to a backup. Does nothing without pipelines. */
export async function backUpIngest(dataDir: string, backup: string): Promise<void> {
  const [from, to] = [join(dataDir, INGEST_FOLDER), join(backup, INGEST_FOLDER)]
  const pipelines = await namesIn(from)
  if (pipelines.length === 0) return
  await makeFolder(to, 0o700)
  for (const pipeline of pipelines) await copyFolder(join(from, pipeline), join(to, pipeline))
  await syncFolder(to)
}

async function copyFolder(from: string, to: string): Promise<void> {
  for (let tried = 1; ; tried++) {
    const names = await namesIn(from)
    await makeFolder(to, 0o700)
    for (const name of names) await copy(join(from, name), join(to, name))
    const now = await namesIn(from)
    // A file that was renamed meanwhile may be missing in the copy.
    if (tried === TRIES || names.every(name => now.includes(name))) break
    await rm(to, { recursive: true })
  }
  await syncFolder(to)
}

async function copy(from: string, to: string): Promise<void> {
  try {
    const found = await lstat(from)
    if (found.isDirectory()) return await copyFolder(from, to)
    if (!found.isFile()) return
    await copyFile(from, to)
    const file = await open(to, 'r')
    await file.sync().finally(() => file.close())
  } catch (error) {
    // The file was removed after delivery, or renamed. If it was renamed, the next attempt finds its new name.
    if (errorCode(error) !== 'ENOENT') throw error
  }
}

/** Names in the order of copying: the ledger first, folders last. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    const rank = (entry: (typeof entries)[number]) => (entry.name === FIRST ? 0 : entry.isDirectory() ? 2 : 1)
    return entries
      .filter(({ name }) => !OF_A_PROCESS.test(name))
      .sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1))
      .map(({ name }) => name)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}
