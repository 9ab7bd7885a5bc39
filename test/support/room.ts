import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * `node room.js NAME FILE...` runs test files in one process, one after the other: starting a process and loading what is
 * tested takes longer than most files do. `ran FILE` ends the tests of a file.
 */
const files = process.argv.splice(3)
// It names its folders after the arguments that are left.
const { default: t } = await import('tap')
let left = files.length
process.once('exit', () => {
  if (left === 0) return
  process.stderr.write(`${left} files did not run: ${files.slice(-left).join(' ')}\n`)
  process.exitCode = 1
})
// tap itself would run them at the end of the room, and end it as soon as no test is under way.
const teardowns: (() => unknown)[] = []
t.teardown = teardown => void teardowns.unshift(teardown)
for (const file of files) {
  await import(pathToFileURL(resolve(file)).href)
  await t.test(`ran ${file}`, async () => {
    for (const teardown of teardowns.splice(0)) await teardown()
  })
  left--
}
