import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../../../support/folder.js'
import { MemoryCheckpoints, Receiver, settled, tail } from '../../../support/tailing.js'

const LINES = 3000
const GENERATIONS = 5
/** More than is read at a time. */
const generation = (n: number) =>
  Array.from({ length: LINES }, (_, i) => `${String(n * LINES + i).padStart(6, '0')} ${'x'.repeat(400)}\n`).join('')

for (const isKilled of [false, true])
  t.test(
    `files that were renamed one after the other and not read, then ${isKilled ? 'killed' : 'stopped'}`,
    async t => {
      const dir = testFolder(t, { 'app.log': generation(0) })
      const path = join(dir, 'app.log')
      const options = { include: [path], scan_interval: '20ms' }
      const checkpoints = new MemoryCheckpoints()
      const out = new Receiver()
      out.hold = true
      const run = await tail(options, checkpoints, out)
      await run.scanned(2)
      for (let n = 1; n < GENERATIONS; n++) {
        for (let i = n - 1; i > 0; i--) renameSync(`${path}.${i}`, `${path}.${i + 1}`)
        renameSync(path, `${path}.1`)
        writeFileSync(path, generation(n))
        await run.scanned(2)
      }
      if (isKilled) {
        await checkpoints.flush()
        await run.kill()
      } else await run.stop()
      const next = await tail(options, checkpoints)
      await settled(next, GENERATIONS * LINES)
      const numbers = next.out.texts().map(text => Number(text.slice(0, 6)))
      t.equal(numbers.length, GENERATIONS * LINES)
      t.equal(
        numbers.findIndex((number, i) => i > 0 && number < numbers[i - 1]!),
        -1,
        'in order',
      )
      await next.stop()
    },
  )
