import { readFileSync, statSync } from './remote/guarded-fs.js'

const MIB = 1024 * 1024

/**
 * The bytes of a regular file of at most `largest` bytes. Throws an error that says what else it is: a device such as
 * /dev/zero has no end, and a FIFO may never have one.
 */
export function readRegularSync(path: string, largest: number): Buffer {
  const stats = statSync(path)
  if (stats.isDirectory()) throw new Error('it is a folder; name a file in it')
  if (!stats.isFile()) throw new Error('it is not a regular file')
  if (stats.size > largest) throw new Error(`it is larger than ${largest / MIB} MiB`)
  return readFileSync(path)
}
