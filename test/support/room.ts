import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

/**
 * `node room.js FOLDER` runs all test files of a folder in one process, one after the other: starting a process and
 * loading what is tested takes longer than most files do. `ran FILE` ends the tests of a file.
 */
const folder = process.argv[2]!
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.test.js'))
let left = files.length
process.once('exit', () => {
  if (left === 0) return
  process.stderr.write(`${left} files of ${folder} did not run\n`)
  process.exitCode = 1
})
// tap itself would run them at the end of the room, and end it as soon as no test is under way.
const teardowns: (() => unknown)[] = []
t.teardown = teardown => void teardowns.unshift(teardown)
for (const file of files.sort()) {
  await import(pathToFileURL(join(folder, file)).href)
  await t.test(`ran ${file}`, async () => {
    for (const teardown of teardowns.splice(0)) await teardown()
  })
  left--
}
