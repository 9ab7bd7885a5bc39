import { join } from 'node:path'

/** The folder of a destination's disk buffer. */
export function bufferFolder(dataDir: string, destination: string): string {
  return join(dataDir, 'buffer', encodeURIComponent(destination))
}
