import type { BigIntStats, Stats } from 'node:fs'

/** If a path is not a regular file, returns what it is, and what to do; otherwise undefined. */
export function irregular(stats: Stats | BigIntStats): string | undefined {
  if (stats.isFile()) return undefined
  if (stats.isDirectory()) return 'it is a folder; name a file in it'
  if (stats.isFIFO()) return 'it is a FIFO; only regular files can be written'
  if (stats.isSocket()) return 'it is a socket; only regular files can be written'
  return 'it is a device, and only regular files can be written; use the destination stdout or blackhole instead'
}
