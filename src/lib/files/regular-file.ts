import type { BigIntStats, Stats } from 'node:fs'

/** Returns what a path is instead of a regular file, and what to do; undefined: it is a regular file. */
export function irregular(stats: Stats | BigIntStats): string | undefined {
  if (stats.isFile()) return undefined
  if (stats.isDirectory()) return 'it is a folder; name a file in it'
  if (stats.isFIFO()) return 'it is a FIFO; only regular files can be written'
  if (stats.isSocket()) return 'it is a socket; only regular files can be written'
  return 'it is a device, and only regular files can be written; use the destination stdout or blackhole instead'
}
