import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Replaces files atomically. A reader, or the next start after a crash, finds either the old or the new content, but
 * never a part. This takes four steps in order: write a temporary file in the same folder, sync that file, rename it,
 * sync the folder.
 */

/**
 * Writes `content` to `path`. If `keep` is set, renames the old content to `keep`. After a failure, the old content is
 * still at `path` or `keep`. A path must have only one writer at a time.
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

/** Makes the file names in a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } catch (error) {
    // Some file systems cannot sync a folder, but file names are durable there.
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EINVAL' && code !== 'ENOTSUP') throw error
  } finally {
    await folder.close()
  }
}
