import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import { readdirSync, statSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import { keyOf } from '../identity.js'
import type { Slices } from '../slices.js'

/** The files in a folder with one of the wanted keys. */
export async function* search(
  folder: string,
  wanted: ReadonlyMap<string, unknown>,
  slices: Slices,
): AsyncIterable<[string, BigIntStats]> {
  let names: string[] = []
  try {
    names = readdirSync(folder)
  } catch (error) {
    unlessSilent(error)
    // A folder that is gone or cannot be read contains none of them.
  }
  for (const name of names) {
    if (slices.due) await slices.pause()
    const path = join(folder, name)
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      unlessSilent(error)
      // For example, a loop of links.
    }
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [path, stat]
  }
}
