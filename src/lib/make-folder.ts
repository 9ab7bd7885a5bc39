import { mkdirSync, statSync } from 'node:fs'
import { mkdir, rmdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { syncFolder } from './atomic-file.js'

/**
 * Create a folder and those above it that are missing. The option `recursive` of Node.js does the same, but never returns
 * where a file system answers ENOENT to a new folder in one that exists, as /proc does.
 */

/** A new folder survives a power failure when this resolves. */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await makeDurable(path, mode)
  } catch (error) {
    if (await stat(path).then(isFolder, () => false)) return
    const above = folderAbove(path, error)
    if (!(await stat(above).then(isFolder, () => false))) await makeFolder(above, mode)
    // Another process may have created it meanwhile.
    await makeDurable(path, mode).catch(async error => {
      if (!(await stat(path).then(isFolder, () => false))) throw error
    })
  }
}

async function makeDurable(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode })
  try {
    await syncFolder(dirname(resolve(path)))
  } catch (error) {
    // A folder that may not be read cannot be synced either.
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return
    // The next call would find the folder and take it for durable.
    await rmdir(path).catch(() => {})
    throw error
  }
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
