import { Seeded } from '../support/seeded.js'
import { PLAIN, type Scenario, type Setup, THROUGH } from './scenario.js'
import { makeSteps } from './steps.js'

/** Everything about a run, of a seed alone. */
export function makeScenario(seed: number, steps: number): Scenario {
  const random = new Seeded(seed * 2_654_435_761)
  const setup = makeSetup(random, THROUGH[seed % THROUGH.length]!)
  return { note: `seed ${seed}`, setup, steps: makeSteps(random, setup, steps) }
}

function makeSetup(random: Seeded, through: Setup['through']): Setup {
  const format = random.pick(['raw', 'raw', 'text', 'json'] as const)
  // Pieces of lines can be told apart only where they are marked.
  const pieces = format !== 'raw'
  return {
    format,
    glob: random.pick(['narrow', 'narrow', 'wide', 'wide', 'listed'] as const),
    inFlight: random.pick([1, 1, 4, 'auto']),
    batchEvents: random.pick([1, 7, 100, 1000]),
    compression: random.chance(0.25) ? 'gzip' : 'none',
    tls: random.chance(0.3),
    timeoutMs: random.chance(0.3) ? 400 : PLAIN.timeoutMs,
    partialMs: pieces && random.chance(0.3) ? 40 : PLAIN.partialMs,
    rotateWaitMs: random.chance(0.3) ? 200 : PLAIN.rotateWaitMs,
    scanMs: random.pick([20, 50, 250, 1500]),
    openFiles: random.chance(0.2) ? 2 : PLAIN.openFiles,
    lineBytes: pieces && random.chance(0.3) ? 1024 : PLAIN.lineBytes,
    header: random.chance(0.4),
    crlf: random.chance(0.15),
    through: random.chance(0.3) ? through : 'none',
    buffer: random.chance(0.35) ? 'disk' : 'memory',
    state: random.chance(0.3) ? 'tmpfs' : 'folder',
    logs: random.chance(0.15) ? 'tmpfs' : 'folder',
  }
}
