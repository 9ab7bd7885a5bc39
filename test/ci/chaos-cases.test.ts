import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { performIn } from '../chaos/case.js'
import { readScenario } from '../chaos/scenario.js'
import { checkout } from '../support/checkout.js'

/** What `npm run chaos` found once, cut down: none of it comes back. */

t.jobs = 2
const folder = join(checkout, 'test/chaos/cases')
for (const name of readdirSync(folder).sort()) {
  const scenario = readScenario(join(folder, name))
  t.test(`${name}: ${scenario.note}`, async t => void (await performIn(t, scenario)))
}
