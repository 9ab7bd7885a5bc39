import { NONE, programOptions } from '../support/program-options.js'
import { type Kind, LIMITS, type Outcome, runCluster, type Settings } from './run.js'

/** `npm run sim cluster`: many simulated daemons share limits, with delays, losses and a server in trouble. */

const USAGE = `Usage: npm run sim cluster -- [options]

  --daemons N  how many daemons share the limit (default: 200)
  --seeds N    how many seeds (default: 3)
  --from N     the first one (default: 1)
  --windows N  how long events arrive, in windows (default: 11)
  --mode M     one mode only: fixed, aligned or gcra
  --limits L   limits of one kind only: events, costs, bytes or several
`

const { options } = programOptions({ daemons: 200, seeds: 3, from: 1, windows: 11, mode: NONE, limits: NONE }, USAGE)

const say = (text: string) => process.stdout.write(`${text}\n`)

function line({ mode, accuracy, kind, troubles, seed }: Settings, outcome: Outcome): string {
  const { events, passed, alone, overshoot, bound, undershoot } = outcome
  const how = `${kind}, ${mode} ${accuracy}, ${troubles ? 'server in trouble' : 'server well'}, seed ${seed}`
  const counts = `${events} events, ${passed} passed, ${alone} of them alone`
  return `${how}: ${counts}; overshoot ${overshoot} of ${bound} possible; undershoot ${(undershoot * 100).toFixed(1)} %`
}

async function main(): Promise<number> {
  let failed = 0
  const modes = (['aligned', 'fixed', 'gcra'] as const).filter(mode => (options.mode ?? mode) === mode)
  const kinds = (Object.keys(LIMITS) as Kind[]).filter(kind => (options.limits ?? kind) === kind)
  const all = kinds.flatMap(kind =>
    modes.flatMap(mode =>
      (['leased', 'exact'] as const).flatMap(accuracy =>
        [false, true].map(troubles => ({ kind, mode, accuracy, troubles })),
      ),
    ),
  )
  for (let n = 0; n < options.seeds; n++) {
    for (const about of all) {
      const { daemons, windows, from } = options
      const settings = { ...about, seed: from + n, daemons, windows }
      const outcome = await runCluster(settings)
      say(line(settings, outcome))
      for (const text of outcome.violations.slice(0, 3)) say(`VIOLATION ${text}`)
      if (outcome.violations.length > 0) failed++
    }
  }
  say(`${failed} runs broke the bound`)
  return failed > 0 ? 1 : 0
}

process.exitCode = await main()
