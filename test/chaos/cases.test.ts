import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'
import { performIn } from './case.js'
import { PLAIN, type Scenario } from './scenario.js'

/** What `npm run chaos` found once, cut down: none of it comes back. */

t.jobs = 2
t.setTimeout(600_000)
const folder = join(checkout, 'test/chaos/cases')
for (const name of readdirSync(folder).sort()) {
  const { note, setup, steps } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Scenario
  t.test(`${name}: ${note}`, async t => {
    await performIn(t, { note, setup: { ...PLAIN, ...setup }, steps })
  })
}
