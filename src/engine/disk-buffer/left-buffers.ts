import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { errorCode, errorText } from '../../core/errors.js'
import { folderOnDisk } from './files.js'
import { recover } from './recovery.js'

const FOLDER = 'buffer'

/** Where the buffer of a destination is. */
export function bufferFolder(dataDir: string, destination: string): string {
  return join(dataDir, FOLDER, encodeURIComponent(destination))
}

/** Tells of buffers that hold events and belong to no destination that would deliver them. They are left alone. */
export async function tellLeftBuffers(dataDir: string, used: ReadonlySet<string>, log: Logger): Promise<void> {
  const known = new Set([...used].map(encodeURIComponent))
  for (const name of await foldersIn(join(dataDir, FOLDER), log)) {
    if (known.has(name)) continue
    const folder = folderOnDisk(join(dataDir, FOLDER, name))
    try {
      const { settled, end } = await recover(folder, log, true)
      const events = end.event - settled.event
      if (events === 0) continue
      const fields = { code: 'SLUICE_BUFFER_LEFT', destination: decodeURIComponent(name), folder: folder.path, events }
      log.warn(
        { ...fields, bytes: end.byte - settled.byte },
        'a buffer holds events, and no destination of its name has a disk buffer now: they are kept and not delivered; give the destination its buffer back to deliver them, or remove the folder',
      )
    } catch (error) {
      log.warn(
        { folder: folder.path, error: errorText(error) },
        'a buffer that belongs to no destination cannot be read',
      )
    }
  }
}

async function foldersIn(path: string, log: Logger): Promise<string[]> {
  try {
    const entries = await readdir(path, { withFileTypes: true })
    return entries.filter(entry => entry.isDirectory()).map(({ name }) => name)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT')
      log.warn({ folder: path, error: errorText(error) }, 'buffers cannot be looked for')
    return []
  }
}
