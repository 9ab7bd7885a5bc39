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

/**
 * Creates the folder. It survives a power failure once this resolves. A folder is only created once its parent is
 * durable. After a failure or a kill in between, a later call only has to sync the folder's own name.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  const whole = resolve(path)
  const found = await stat(whole).then(kindOf, kindOfError)
  if (found !== 'folder') {
    if (found === 'missing') await makeFolder(dirname(whole), mode)
    // Another process may have created it in between.
    await mkdir(whole, { mode }).catch(async error => {
      if ((await stat(whole).then(kindOf, kindOfError)) !== 'folder') throw error
    })
    durable.delete(whole)
  }
  if (durable.has(whole)) return
  await syncFolder(dirname(whole)).catch(throwUnlessForbidden)
  remember(whole)
}

export function makeFolderSync(path: string, mode = 0o777): void {
  const whole = resolve(path)
  const found = kindAt(whole)
  if (found !== 'folder') {
    if (found === 'missing') makeFolderSync(dirname(whole), mode)
    try {
      mkdirSync(whole, { mode })
    } catch (error) {
      if (kindAt(whole) !== 'folder') throw error
    }
    durable.delete(whole)
  }
  if (durable.has(whole)) return
  try {
    syncFolderSync(dirname(whole))
  } catch (error) {
    throwUnlessForbidden(error)
  }
  remember(whole)
}

type Kind = 'folder' | 'missing' | 'other'

function kindAt(path: string): Kind {
  try {
    return kindOf(statSync(path))
  } catch (error) {
    return kindOfError(error)
  }
}

function kindOf(stats: { isDirectory(): boolean }): Kind {
  return stats.isDirectory() ? 'folder' : 'other'
}

function kindOfError(error: unknown): Kind {
  return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'other'
}

function throwUnlessForbidden(error: unknown): void {
  if (!NOT_SYNCED.has((error as NodeJS.ErrnoException).code ?? '')) throw error
}

function remember(path: string): void {
  if (durable.size >= MOST_DURABLE) durable.clear()
  durable.add(path)
}
