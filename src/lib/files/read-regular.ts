import { readFileSync, statSync } from './disk/disk.js'

const MIB = 1024 * 1024

/**
 * Returns why a file cannot be read whole, as the end of a sentence; undefined if it can. `largest`: limit in bytes.
 */
export function notWhole(
  stats: { isFile(): boolean; isDirectory(): boolean; readonly size: number },
  largest: number,
): string | undefined {
  if (stats.isDirectory()) return 'is a folder; name a file in it'
  // Devices such as /dev/zero never end, and a FIFO may never end.
  if (!stats.isFile()) return 'is not a regular file'
  return stats.size > largest ? `is larger than ${largest / MIB} MiB` : undefined
}

/** Returns the bytes of a regular file of at most `largest` bytes. If this fails, throws the reason. */
export function readRegularSync(path: string, largest: number): Buffer {
  const wrong = notWhole(statSync(path), largest)
  if (wrong !== undefined) throw new Error(`it ${wrong}`)
  return readFileSync(path)
}
