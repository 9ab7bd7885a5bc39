import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { printedBy } from '../../../src/lib/printed-by.js'
import { testFolder } from '../../support/folder.js'
import { until } from '../../support/until.js'

const bounds = { maxBytes: 100, timeoutMs: 30_000 }

t.test('what a program prints, which gets no input', async t => {
  t.equal(String(await printedBy(['printf', 'a\n%s', 'b c'], bounds)), 'a\nb c')
  t.equal(String(await printedBy(['cat'], bounds)), '')
  await t.rejects(printedBy(['yes'], bounds), { message: 'it printed more than 100 bytes' })
})

t.test('a program that takes too long is killed with what it has started', async t => {
  const folder = testFolder(t)
  const scripts = {
    hangs: 'sleep 1000 & echo $! > "$0"; wait',
    leaves_its_output_open: 'sleep 1000 & echo $! > "$0"; echo key',
  }
  for (const [name, script] of Object.entries(scripts)) {
    const path = join(folder, name)
    // The time is enough for a slow machine to start a shell.
    const printed = printedBy(['sh', '-c', script, path], { ...bounds, timeoutMs: 3000 })
    await t.rejects(printed, { message: 'it did not end within 3s' }, name)
    const pid = readFileSync(path, 'utf8').trim()
    // Where nobody waits for it, it stays a zombie.
    const state = () => existsSync(`/proc/${pid}`) && /\) (\w) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]
    await until(`${name}: its process to end`, () => [false, 'Z'].includes(state() ?? false))
  }
})
