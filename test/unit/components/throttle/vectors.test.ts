import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../../../support/folder.js'
import { rounds } from '../../../support/long-test.js'
import {
  decisionsOn,
  decisionsOnBatches,
  type Vector,
  vectorFiles,
  vectorFolder,
  vectorsOf,
} from '../../../support/vectors.js'

const reference = join(vectorFolder, 'reference.py')
const hasPython = spawnSync('python3', ['-c', 'import zoneinfo; zoneinfo.ZoneInfo("Europe/Berlin")']).status === 0
const skip = hasPython ? false : 'needs python3 with time zones'

const expectedOf = ({ events }: Vector) => events.map(({ decision }) => decision)

t.test('the vectors of every algorithm hold', async t => {
  t.strictSame(
    vectorFiles.sort(),
    ['aligned', 'fixed', 'gcra', 'quota', 'several', 'sliding', 'throttle'].map(name => `${name}.json`),
  )
  for (const file of vectorFiles) {
    const vectors = vectorsOf(file)
    t.equal(new Set(vectors.map(({ name }) => name)).size, vectors.length, `${file}: names`)
    for (const vector of vectors) {
      t.same(decisionsOn(vector), expectedOf(vector), vector.name)
      const whole = decisionsOnBatches(vector)
      if (whole) t.same(whole, expectedOf(vector), `${vector.name}, in batches`)
    }
  }
})

t.test('the files are what the reference program makes', { skip }, async t => {
  const folder = testFolder(t)
  const { status, stderr } = spawnSync('python3', [reference, folder], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  for (const file of vectorFiles) {
    if (file === 'throttle.json') continue
    t.equal(readFileSync(join(folder, file), 'utf8'), readFileSync(join(vectorFolder, file), 'utf8'), file)
  }
})

/** `npm run fuzz vectors` runs 10,000; these take a moment. */
const RUNS = Number(process.env.SLUICE_VECTORS ?? rounds(400, 150))

t.test('random limits decide as the reference program does', { skip, timeout: 300_000 + RUNS * 20 }, async t => {
  const maxBuffer = 64 * 1024 * 1024
  for (let first = 0; first < RUNS; first += 1000) {
    const args = [reference, '--random', String(first + 1000), String(Math.min(1000, RUNS - first))]
    const { stdout, stderr, status } = spawnSync('python3', args, { encoding: 'utf8', maxBuffer })
    t.equal(status, 0, stderr)
    let wrong = 0
    for (const line of stdout.trim().split('\n')) {
      const vector = JSON.parse(line) as Vector
      const expected = JSON.stringify(expectedOf(vector))
      const ways = [decisionsOn(vector), decisionsOnBatches(vector) ?? expectedOf(vector)]
      if (ways.every(decisions => JSON.stringify(decisions) === expected)) continue
      if (wrong++ >= 3) continue
      for (const decisions of ways)
        t.same(decisions, expectedOf(vector), `${vector.name} ${JSON.stringify(vector.config)}`)
    }
    t.equal(wrong, 0, `from ${first}`)
  }
})
