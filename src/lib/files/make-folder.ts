import { mkdirSync, statSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { syncFolder } from './atomic-file.js'

/**
 * Create a folder and those above it that are missing. The option `recursive` of Node.js does the same, but never returns
 * where a file system answers ENOENT to a new folder in one that exists, as /proc does.
 */

/** Folders whose names are known to survive a power failure. */
const durable = new Set<string>()
const MOST_DURABLE = 1000
/** The folder above may not be read, or not be written to: then it cannot be synced. */
const NOT_SYNCED = new Set(['EACCES', 'EPERM', 'EROFS'])

/** The folder survives a power failure when this resolves. */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode })
    durable.delete(resolve(path))
  } catch (error) {
    if (!(await stat(path).then(isFolder, () => false))) {
      const above = folderAbove(path, error)
      if (!(await stat(above).then(isFolder, () => false))) await makeFolder(above, mode)
      // Another process may have created it meanwhile.
      await mkdir(path, { mode }).catch(async error => {
        if (!(await stat(path).then(isFolder, () => false))) throw error
      })
      durable.delete(resolve(path))
    }
  }
  await makeDurable(resolve(path))
}

/** Also for a folder that was there: a process that was killed may have made it, and not have come to this. */
async function makeDurable(path: string): Promise<void> {
  if (durable.has(path)) return
  try {
    await syncFolder(dirname(path))
  } catch (error) {
    if (!NOT_SYNCED.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
  if (durable.size >= MOST_DURABLE) durable.clear()
  durable.add(path)
}

export function makeFolderSync(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if (isFolderSync(path)) return
    const above = folderAbove(path, error)
    if (!isFolderSync(above)) makeFolderSync(above, mode)
    try {
      mkdirSync(path, { mode })
    } catch (error) {
      if (!isFolderSync(path)) throw error
    }
  }
}

/** The folder that a missing one belongs in; throws `error` when that is not what failed. */
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
