import t from 'tap'
import { runCluster } from '../../../sim-cluster/run.js'

/** A short run of `npm run sim:cluster`. */

t.setTimeout(200_000)

for (const mode of ['aligned', 'fixed', 'gcra'] as const) {
  t.test(`200 daemons keep within the bound, ${mode}`, async t => {
    const outcome = await runCluster({ seed: 1, daemons: 200, mode, accuracy: 'leased', windows: 6, troubles: true })
    t.same(outcome.violations, [])
    t.ok(outcome.alone > 100, 'the server was in trouble')
    t.comment(`overshoot ${outcome.overshoot} of ${outcome.bound} possible`)
  })
}

t.test('with a server that replies, no aligned window lets through more than the limit', async t => {
  const outcome = await runCluster({
    seed: 2,
    daemons: 200,
    mode: 'aligned',
    accuracy: 'leased',
    windows: 4,
    troubles: false,
  })
  t.equal(outcome.overshoot, 0)
  t.equal(outcome.bound, 0)
  t.equal(outcome.alone, 0)
  t.ok(outcome.undershoot < 0.2, `undershoot ${outcome.undershoot}`)
})

t.test('a seed runs the same every time', async t => {
  const settings = { seed: 3, daemons: 30, mode: 'gcra', accuracy: 'leased', windows: 3, troubles: true } as const
  t.same(await runCluster(settings), await runCluster(settings))
})
