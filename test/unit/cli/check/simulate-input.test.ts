import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { bytesOf } from '../../../../src/cli/check/simulate/input-bytes.js'
import { Progress } from '../../../../src/cli/screen/progress.js'
import { testFolder } from '../../../support/folder.js'

/** The files that this process has open in a folder. */
function openIn(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(folder) ? [path] : []
    } catch {
      return []
    }
  })
}

t.test('a file of which no more is wanted is closed, wherever reading stops', async t => {
  const text = Buffer.from('one line\n'.repeat(200_000))
  const dir = testFolder(t, { 'plain.log': text, 'packed.log.gz': gzipSync(text) })
  const { stderr, stdin, stdout } = process
  const io = { stderr, stdin, stdout } as never
  for (const name of ['plain.log', 'packed.log.gz']) {
    for (const pieces of [1, 2, 3]) {
      const progress = new Progress(stderr, undefined, () => 0)
      let read = 0
      for await (const _ of bytesOf(join(dir, name), { io, progress, signal: new AbortController().signal })) {
        if (++read === pieces) break
      }
      t.equal(read, pieces)
      t.same(openIn(dir), [], `${name}, after ${pieces}`)
    }
  }
})
