import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { syncFolder } from './atomic-file.js'

/**
 * Creates a folder and its missing parents, one by one. Does not use the option `recursive` of `mkdir`: if an existing
 * folder refuses a new folder with ENOENT, as /proc does, that call never returns.
 */

const durable = new Set<string>()
const MOST_DURABLE = 1000
/** Error codes for a parent folder that cannot be synced, because it is unreadable or its disk is read-only. */
const NOT_SYNCED = new Set(['EACCES', 'EPERM', 'EROFS'])

/**
 * Creates the folder. After this resolves, the folder survives a power failure. Creates each folder only when its
 * parent is durable. After a failure or a kill, a later call therefore only has to sync the name of the folder itself.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  const whole = resolve(path)
  const found = await kindAt(whole)
  if (found !== 'folder') {
    if (found === 'missing') await makeFolder(dirname(whole), mode)
    // Ignores the error if another process has created the folder meanwhile.
    await mkdir(whole, { mode }).catch(async error => {
      if ((await kindAt(whole)) !== 'folder') throw error
    })
    durable.delete(whole)
  }
  if (durable.has(whole)) return
  await syncFolder(dirname(whole)).catch(error => {
    if (!NOT_SYNCED.has(codeOf(error))) throw error
  })
  if (durable.size >= MOST_DURABLE) durable.clear()
  durable.add(whole)
}

async function kindAt(path: string): Promise<'folder' | 'missing' | 'other'> {
  try {
    return (await stat(path)).isDirectory() ? 'folder' : 'other'
  } catch (error) {
    return codeOf(error) === 'ENOENT' ? 'missing' : 'other'
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? ''
