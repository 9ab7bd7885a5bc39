import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import { readdirSync, statSync, unlessSilent } from '../../../lib/files/remote/guarded-fs.js'
import { keyOf } from '../identity.js'
import type { Slices } from '../slices.js'

/** The files of a folder whose key is wanted. */
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
    // Gone or not to be read: then nothing of it is found.
  }
  for (const name of names) {
    if (slices.due) await slices.pause()
    const path = join(folder, name)
    let stat: BigIntStats | undefined
    try {
      stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      unlessSilent(error)
      // A loop of links, for one: not what is looked for.
    }
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [path, stat]
  }
}
