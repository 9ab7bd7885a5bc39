import type { BigIntStats } from 'node:fs'
import { join } from 'node:path'
import { namesOrNone, statOrNone } from '../../../lib/files/disk/disk.js'
import { keyOf } from '../identity.js'
import type { Slices } from '../slices.js'

/** The files in a folder with one of the wanted keys. */
export async function* search(
  folder: string,
  wanted: ReadonlyMap<string, unknown>,
  slices: Slices,
): AsyncIterable<[string, BigIntStats]> {
  for (const name of namesOrNone(folder)) {
    if (slices.due) await slices.pause()
    const stat = statIn(folder, name)
    if (stat?.isFile() && wanted.has(keyOf(stat))) yield [join(folder, name), stat]
  }
}

/** What has this name in the folder; undefined if there is nothing, or it cannot be accessed. */
export function statIn(folder: string, name: string): BigIntStats | undefined {
  return statOrNone(join(folder, name), folder)
}
