import t from 'tap'
import { around } from './around.js'
import type { Case } from './case.js'
import { debianPackage } from './deb.js'
import { doctor } from './doctor.js'
import { instances } from './instances.js'
import { journal } from './journal.js'
import { Machine } from './machine.js'
import { systemdPage } from './page.js'
import { running } from './running.js'
import { starting } from './starting.js'
import { whyNoTree } from './tree.js'

/**
 * Everything that must hold under a real systemd, in a tree of its own that is booted for it: `npm run test:systemd`. What is
 * done in there is told on stderr as it is done. With words as arguments: only the cases whose titles have one of
 * them, or none of those behind `--not`.
 */

/** A machine with other work takes five times the 80 s of one that has none. */
const CASE_MS = 900_000
const ALL_MS = 3_500_000
const DEB = 'the Debian package: built, installed, started, upgraded, removed, purged; the first hour'
const PAGE = 'the page: what docs/systemd.md says, done'
const CASES: readonly Case[] = [...starting, ...running, ...around, ...instances, ...journal, ...doctor]

const tell = (line: string) => void process.stderr.write(`        ${line}\n`)
const why = whyNoTree()
const [first, ...others] = process.argv.slice(2)
const isNot = first === '--not'
const words = isNot || first === undefined ? others : [first, ...others]
const isWanted = (title: string) => words.length === 0 || words.some(word => title.includes(word)) !== isNot
const wanted = CASES.filter(({ title }) => isWanted(title))
t.setTimeout(ALL_MS)
if (why && process.env.CI) t.fail(`${why}; under CI this may not be left out`)
else if (why) t.pass('a booted tree', { skip: why })
else if (wanted.length === 0) whole()
else {
  const machine = await Machine.boot(tell).catch(error => {
    tell(error.message)
    t.fail(error.message.replace(/\s+/g, ' ').slice(0, 500))
  })
  if (machine) {
    each(machine)
    whole()
  }
}

function each(machine: Machine): void {
  t.teardown(() => machine.tree.end())
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void machine.tree.end().then(() => process.kill(process.pid, signal)))
  }
  for (const { title, run } of wanted) {
    t.test(title, { timeout: CASE_MS }, async t => {
      tell(`\n        ${title}\n`)
      await machine.reset()
      await run(t, machine)
    })
  }
}

/** Those that boot a tree of their own. */
function whole(): void {
  if (isWanted(PAGE)) t.test(PAGE, { timeout: CASE_MS }, t => systemdPage(t, tell))
  if (isWanted(DEB)) {
    t.test(DEB, { timeout: ALL_MS }, async t => {
      tell(`\n        ${DEB}\n`)
      await debianPackage(t, tell)
    })
  }
}
