import { join } from 'node:path'

export function bufferFolder(dataDir: string, destination: string): string {
  return join(dataDir, 'buffer', encodeURIComponent(destination))
}
