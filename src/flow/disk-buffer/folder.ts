import { join } from 'node:path'

/** Where the buffer of a destination is. */
export function bufferFolder(dataDir: string, destination: string): string {
  return join(dataDir, 'buffer', encodeURIComponent(destination))
}
