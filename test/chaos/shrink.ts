import { PLAIN, type Scenario, type Setup, type Step } from './scenario.js'

/** Whether a scenario fails, in the way that is looked for. */
export type Fails = (scenario: Scenario) => Promise<boolean>

/**
 * A scenario with fewer steps, and a plainer setup, that still fails: delta debugging over the steps, then over the
 * setup, then over what single steps say. Ends when nothing can be left out, or when `over` says so.
 */
export async function shrink(scenario: Scenario, fails: Fails, over: () => boolean): Promise<Scenario> {
  let best = scenario
  const better = async (candidate: Scenario): Promise<boolean> => {
    if (over() || !(await fails(candidate))) return false
    best = candidate
    return true
  }
  for (let size = -1; size !== best.steps.length && !over(); ) {
    size = best.steps.length
    await fewerSteps(() => best, better)
    for (const name of Object.keys(PLAIN) as (keyof Setup)[]) {
      if (best.setup[name] !== PLAIN[name]) await better({ ...best, setup: { ...best.setup, [name]: PLAIN[name] } })
    }
  }
  for (let i = 0; i < best.steps.length; i++) {
    for (const simpler of simplerValues(best.steps[i]!)) {
      // On top of what was made simpler before.
      const step = { ...best.steps[i], ...simpler } as Step
      await better({ ...best, steps: best.steps.with(i, step) })
    }
  }
  return best
}

async function fewerSteps(best: () => Scenario, better: (candidate: Scenario) => Promise<boolean>): Promise<void> {
  for (
    let length = Math.ceil(best().steps.length / 2);
    length >= 1;
    length = length === 1 ? 0 : Math.ceil(length / 2)
  ) {
    // From the end: what came after the failure goes first.
    for (let end = best().steps.length; end > 0; ) {
      const start = Math.max(0, end - length)
      await better({ ...best(), steps: best().steps.toSpliced(start, end - start) })
      end = start
    }
  }
}

/** Values that make a step simpler, each by itself. */
function simplerValues(step: Step): object[] {
  if (step.do === 'append') {
    const { tear, writes, lines, bytes } = step
    return [
      ...(tear > 0 ? [{ tear: 0 }] : []),
      ...(writes > 1 ? [{ writes: 1 }] : []),
      ...(lines > 1 ? [{ lines: 1 }] : []),
      ...(bytes > 60 ? [{ bytes: 60 }] : []),
    ]
  }
  if ('lines' in step && step.lines > 1) return [{ lines: 1 }]
  if (step.do === 'pause' && step.ms > 5) return [{ ms: 5 }]
  return []
}
