import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Where `sluice resend` keeps what it sends: a folder beside the file of dead letters. */

/** The folder for the file `path`. */
export const folderOf = (path: string) => `${path}.sending`
/** The events that are being sent. */
export const recordsIn = (folder: string) => join(folder, 'records.ndjson')
/** How much of them is settled. */
export const progressIn = (folder: string) => join(folder, 'progress.json')
/** What a daemon wrote meanwhile, while it is put behind what was refused again. */
export const mergingIn = (folder: string) => join(folder, 'merging.ndjson')

/** Bytes before which all events are settled, from the text of a progress file; undefined where it is damaged. */
export function doneIn(text: string): number | undefined {
  try {
    const { done } = JSON.parse(text) as { done?: unknown }
    return typeof done === 'number' && done >= 0 ? done : undefined
  } catch {
    return undefined
  }
}

/** The same of a folder that another process may be changing; 0 where that cannot be read. */
export async function doneOf(folder: string): Promise<number> {
  const text = await readFile(progressIn(folder), 'utf8').catch(() => '')
  return doneIn(text) ?? 0
}
