import { mkdirSync, statSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { syncFolder, syncFolderSync } from './atomic-file.js'

/**
 * Create a folder and its missing parents. The option `recursive` of Node.js does the same, but never returns if a file
 * system answers ENOENT to a new folder in an existing one, as /proc does.
 */

/** Folders that are known to be durable. */
const durable = new Set<string>()
const MOST_DURABLE = 1000
/** The parent folder may be unreadable or read-only; then it cannot be synced. */
const NOT_SYNCED = new Set(['EACCES', 'EPERM', 'EROFS'])

/** Creates the folder. It survives a power failure once this resolves. */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode })
    durable.delete(resolve(path))
  } catch (error) {
    if (!(await stat(path).then(isFolder, () => false))) {
      const above = folderAbove(path, error)
      if (!(await stat(above).then(isFolder, () => false))) await makeFolder(above, mode)
      // Another process may have created it in between.
      await mkdir(path, { mode }).catch(async error => {
        if (!(await stat(path).then(isFolder, () => false))) throw error
      })
      durable.delete(resolve(path))
    }
  }
  await makeDurable(resolve(path))
}

/** Also for a folder that exists: a process that was killed may have created it without syncing it. */
async function makeDurable(path: string): Promise<void> {
  if (durable.has(path)) return
  try {
    await syncFolder(dirname(path))
  } catch (error) {
    throwUnlessForbidden(error)
  }
  remember(path)
}

/** As `makeFolder`, synchronously. */
export function makeFolderSync(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode })
    durable.delete(resolve(path))
  } catch (error) {
    if (!isFolderSync(path)) {
      const above = folderAbove(path, error)
      if (!isFolderSync(above)) makeFolderSync(above, mode)
      try {
        mkdirSync(path, { mode })
      } catch (error) {
        if (!isFolderSync(path)) throw error
      }
      durable.delete(resolve(path))
    }
  }
  makeDurableSync(resolve(path))
}

function makeDurableSync(path: string): void {
  if (durable.has(path)) return
  try {
    syncFolderSync(dirname(path))
  } catch (error) {
    throwUnlessForbidden(error)
  }
  remember(path)
}

function throwUnlessForbidden(error: unknown): void {
  if (!NOT_SYNCED.has((error as NodeJS.ErrnoException).code ?? '')) throw error
}

function remember(path: string): void {
  if (durable.size >= MOST_DURABLE) durable.clear()
  durable.add(path)
}

/** The parent of a missing folder, which has to be created first. Throws `error` if the cause is another one. */
function folderAbove(path: string, error: unknown): string {
  const whole = resolve(path)
  const above = dirname(whole)
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === whole) throw error
  return above
}

function isFolder(stats: { isDirectory(): boolean }): boolean {
  return stats.isDirectory()
}

function isFolderSync(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
