import t from 'tap'
import { journal } from './journal.js'
import { Machine } from './machine.js'
const tell = (line: string) => void process.stderr.write(`        ${line}\n`)
const machine = await Machine.boot(tell)
t.teardown(() => machine.tree.end())
t.setTimeout(300_000)
for (const { title, run } of journal) t.test(title, { timeout: 240_000 }, async t => { await machine.reset(); await run(t, machine) })
