import { readdirSync, readlinkSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Loaded into the watched process by `--import`: asked by any message, it collects what is garbage and tells what is
 * left, with itself in it.
 */
export interface Left {
  readonly heapBytes: number
  /** Outside of the heap: buffers. */
  readonly externalBytes: number
  readonly rssBytes: number
  /** What keeps the event loop going, by its kind. */
  readonly resources: Readonly<Record<string, number>>
  readonly descriptors: number
  /** What the descriptors are of. */
  readonly files: readonly string[]
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Without the one that this needs itself. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return []
    }
  })
}

process.on('message', async () => {
  // What is collected may let go of more.
  for (let i = 0; i < 4; i++) {
    collect()
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  const resources: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  const files = openFiles()
  const left: Left = {
    heapBytes: heapUsed,
    externalBytes: external,
    rssBytes: rss,
    resources,
    descriptors: files.length,
    files,
  }
  process.send!(left)
})
process.channel?.unref()
