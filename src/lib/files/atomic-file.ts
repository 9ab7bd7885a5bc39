import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Replaces files so that a reader, or the next start after a crash, finds the old content or the new, never a part.
 * The order that this rests on: write beside it, sync, rename, sync the folder.
 */

/**
 * Writes `content` to `path`. With `keep` the old content stays under that name. On failure `path` still has its old
 * content, or, with `keep`, `keep` has it. One writer per path at a time.
 */
export async function writeAtomic(path: string, content: string | Buffer, keep?: string, mode = 0o600): Promise<void> {
  const beside = `${path}.new`
  try {
    await writeSynced(beside, content, mode)
    if (keep !== undefined) await renameIfThere(path, keep)
    await rename(beside, path)
  } catch (error) {
    await unlink(beside).catch(() => {})
    throw error
  }
  await syncFolder(dirname(path))
}

async function writeSynced(path: string, content: string | Buffer, mode: number): Promise<void> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'w', mode)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file?.close()
  }
}

async function renameIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } catch (error) {
    // Some file systems cannot; they keep names without being asked.
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error
  } finally {
    await folder.close()
  }
}
