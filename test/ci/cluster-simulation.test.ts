import t from 'tap'
import { runCluster } from '../sim-cluster/run.js'

/** A short run of `npm run sim cluster`. */

const DAEMONS = 30

for (const mode of ['aligned', 'fixed', 'gcra'] as const) {
  t.test(`${DAEMONS} daemons keep within the bound, ${mode}`, async t => {
    const outcome = await runCluster({
      seed: 1,
      daemons: DAEMONS,
      mode,
      accuracy: 'leased',
      kind: 'events',
      windows: 6,
      troubles: true,
    })
    t.same(outcome.violations, [])
    t.ok(outcome.alone > DAEMONS / 2, 'the server was in trouble')
    t.comment(`overshoot ${outcome.overshoot} of ${outcome.bound} possible`)
  })
}

t.test('with a server that replies, no aligned window lets through more than the limit', async t => {
  const outcome = await runCluster({
    seed: 2,
    daemons: DAEMONS,
    mode: 'aligned',
    accuracy: 'leased',
    kind: 'events',
    windows: 4,
    troubles: false,
  })
  t.equal(outcome.overshoot, 0)
  t.equal(outcome.bound, 0)
  t.equal(outcome.alone, 0)
  t.ok(outcome.undershoot < 0.2, `undershoot ${outcome.undershoot}`)
})

t.test('daemons keep within limits of costs, of bytes and of several kinds', async t => {
  for (const [kind, mode] of [
    ['costs', 'aligned'],
    ['bytes', 'gcra'],
    ['several', 'fixed'],
  ] as const) {
    const outcome = await runCluster({
      seed: 4,
      daemons: 20,
      mode,
      accuracy: 'leased',
      kind,
      windows: 4,
      troubles: true,
    })
    t.same(outcome.violations, [], kind)
    t.ok(outcome.passed > outcome.alone && outcome.alone > 0, `${kind}: ${outcome.passed}, ${outcome.alone} alone`)
  }
})

t.test('a seed runs the same every time', async t => {
  const settings = {
    seed: 3,
    daemons: 20,
    mode: 'gcra',
    accuracy: 'leased',
    kind: 'events',
    windows: 3,
    troubles: true,
  } as const
  t.same(await runCluster(settings), await runCluster(settings))
})
