import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { checkout } from '../support/checkout.js'

/** A short run of `npm run sim`. It replaces clocks, timers and node:fs of its process, so it has one of its own. */

const run = promisify(execFile)
const SECONDS = 5
/** `.ci/run` has more of them. */
const SEEDS = 100

// Under tap, imports would go through a hook in another thread, which takes real time. A seed must not depend on it.
const NODE = ['-c', 'unset NODE_OPTIONS; exec "$@"', 'sh', process.execPath]

const simulate = (...args: string[]) =>
  run('sh', [...NODE, join(checkout, 'dist/test/sim/main.js'), ...args], { encoding: 'utf8' })

t.test('no seed breaks an invariant', async t => {
  const { stdout } = await simulate('--seeds', String(SEEDS), '--seconds', String(SECONDS))
  t.match(stdout, /^\d+ seeds, 0 failed/m)
})

t.test('no world of files breaks a promise', async t => {
  const { stdout } = await simulate('--files', '--seeds', '600', '--seconds', '20')
  t.match(stdout, /^\d+ seeds, 0 failed/m)
})

t.test('no world of files in which single calls fail breaks a promise', async t => {
  const { stdout } = await simulate('--files', '--errors', '--seeds', '200', '--seconds', '5')
  t.match(stdout, /^\d+ seeds, 0 failed/m)
})

t.test('worlds of files behind those that broke a promise once', async t => {
  const seeds = [
    20923, 22243, 22852, 23292, 23651, 23772, 26157, 26623, 27060, 40203, 40420, 41012, 41575, 72790, 101020, 102756,
    310108, 312883, 314451, 401470, 504900, 505362, 507421, 603950, 3939, 1013963, 1019878, 1031667, 1036884, 1037476,
    2006617, 2018031, 3001026, 4003311, 6066212, 7000739, 7045043, 434, 5538, 20649, 30249, 40881, 48183, 36385,
    9110531, 9203284, 10041515, 10042464, 12007087, 13004557, 13022972, 13027056, 14014033, 14019454, 16018693,
    18005147, 27009347, 28019488, 28021828, 30062620, 31019885, 31065380, 32008639, 32026044, 34029272, 34072835,
    36027589, 36043999, 36057764, 37044271, 41017258, 45035676, 45046524, 52003860, 54004785, 55019337, 55040889,
    55065984, 57032820, 64018783, 67020740, 68057538, 69050572, 70041500, 70041530, 74012978, 73046398, 75036868,
    80005268, 84023103, 93069469, 95032883, 98207926, 98424275, 101663950, 102013889, 82201122, 84003858, 84102235,
    84108331,
  ]
  const { stdout } = await simulate('--files', '--seed', seeds.join())
  for (const seed of seeds) t.match(stdout, new RegExp(`^seed ${seed} .*: ok;`, 'm'))
})

t.test('worlds in which single calls fail that broke a promise once', async t => {
  const seeds = [
    75002400, 75004061, 75005074, 75018734, 75032086, 75033634, 75043647, 83000361, 71000371, 78001439, 78002549,
    78002600, 78004394, 79009581, 82107261, 82610196, 82610349, 82612811, 82642804, 82645185, 82645741, 83032362,
    83042532, 92600319, 95036991, 95052212,
  ]
  for (const seed of seeds)
    t.match(
      (await simulate('--files', '--errors', '--seed', String(seed))).stdout,
      new RegExp(`^seed ${seed} .*: ok;`, 'm'),
    )
})

t.test('a seed replays exactly', async t => {
  const fingerprint = async (args: string[]) => (await simulate(...args)).stdout.trim().split('\n').at(-1)
  const alone = await fingerprint(['--seed', '7'])
  t.match(alone, /^seed 7: ok; \d+ /)
  t.equal(await fingerprint(['--seed', '7']), alone)
  t.match(
    (await simulate('--from', '5', '--seeds', '3', '--fingerprints')).stdout,
    `${alone}\n`,
    'after other seeds, too',
  )
  const ofFiles = await fingerprint(['--files', '--seed', '9'])
  t.match(ofFiles, /^seed 9 \(.*\): ok; \d+ /)
  t.match((await simulate('--files', '--from', '8', '--seeds', '2', '--fingerprints')).stdout, `${ofFiles}\n`)
})
