import t from 'tap'
import { measureRotations } from '../../bench/rotations/rotations.js'
import { testFolder } from '../support/folder.js'

/** Many files are rotated at once. Each line arrives once; `measureRotations` fails otherwise. */

const MOST_HELD_MS = 250

t.test('the event loop stays free, and the cost grows with the number of files', async t => {
  const cost: Record<number, number> = {}
  for (const files of [1000, 3000]) {
    const { rotations, stopSeconds } = await measureRotations(testFolder(t), { files, inFolder: files })
    for (const { heldMs } of rotations) t.ok(heldMs < MOST_HELD_MS, `${files} files: held for ${heldMs.toFixed(0)} ms`)
    t.ok(stopSeconds < 30, `stops within ${stopSeconds.toFixed(1)} s`)
    cost[files] = rotations.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  }
  // A cost that grows with the square of the number is nine times as high.
  t.ok(cost[3000]! < 5 * cost[1000]!, `${cost[1000]!.toFixed(1)} s of CPU, then ${cost[3000]!.toFixed(1)} s`)
})

t.test('also in many folders, and with few descriptors', async t => {
  for (const more of [{ inFolder: 10 }, { inFolder: 1000, maxOpenFiles: 100 }]) {
    const { rotations } = await measureRotations(testFolder(t), { files: 1000, ...more })
    for (const { heldMs } of rotations) t.ok(heldMs < MOST_HELD_MS, `held for ${heldMs.toFixed(0)} ms`)
  }
})
