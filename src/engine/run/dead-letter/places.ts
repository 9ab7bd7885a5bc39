import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Paths used by `sluice resend`: a folder beside the dead-letter file. */

/** The folder for the dead-letter file `path`. */
export const folderOf = (path: string) => `${path}.sending`
/** The events being sent. */
export const recordsIn = (folder: string) => join(folder, 'records.ndjson')
/** How many of them are settled. */
export const progressIn = (folder: string) => join(folder, 'progress.json')
/** Events that a daemon rejected during the run, while they are appended to those rejected again. */
export const mergingIn = (folder: string) => join(folder, 'merging.ndjson')

/** Parses a progress file: the offset in bytes before which all events are settled; undefined if it is damaged. */
export function doneIn(text: string): number | undefined {
  try {
    const { done } = JSON.parse(text) as { done?: unknown }
    return typeof done === 'number' && done >= 0 ? done : undefined
  } catch {
    return undefined
  }
}

/** Reads the progress of a folder that another process may be changing; 0 if it cannot be read. */
export async function doneOf(folder: string): Promise<number> {
  const text = await readFile(progressIn(folder), 'utf8').catch(() => '')
  return doneIn(text) ?? 0
}
