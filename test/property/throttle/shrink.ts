import { run } from './run.js'
import type { Scenario, Step } from './scenario.js'

/** Finds a smaller scenario that fails as well, by leaving out one thing after the other. */

const MOST_TRIES = 2000

export async function shrunken(scenario: Scenario): Promise<Scenario> {
  let smallest = scenario
  let tries = 0
  for (let isSmaller = true; isSmaller && tries < MOST_TRIES; ) {
    isSmaller = false
    for (const candidate of smaller(smallest)) {
      if (tries++ > MOST_TRIES) break
      const fails = await run(candidate).then(
        ({ problems }) => problems.length > 0 && !/^refused/.test(problems[0]!),
        () => false,
      )
      if (!fails) continue
      smallest = candidate
      isSmaller = true
      break
    }
  }
  return smallest
}

/** Without the events with which the sources begin, the model knows of windows that nobody has to keep for them. */
const isJoin = (step: Step | undefined) => step?.do === 'send' && step.events.some(({ lv }) => lv === 'join')

/** How many steps go with the one at `n`: a restart goes with the beginning after it. */
function stepsWith(steps: readonly Step[], n: number): number {
  let count = 1
  if (steps[n]!.do === 'restart' || steps[n]!.do === 'reload') while (isJoin(steps[n + count])) count++
  return count
}

function* smaller(scenario: Scenario): Generator<Scenario> {
  const { steps, options, features } = scenario
  for (let n = steps.length - 1; n >= 0; n--)
    if (!isJoin(steps[n])) yield { ...scenario, steps: steps.toSpliced(n, stepsWith(steps, n)) }
  for (const name of Object.keys(options)) {
    const { [name]: _, ...rest } = options
    const others = features.filter(feature => feature.split(':')[0] !== name)
    yield { ...scenario, options: rest, features: others, ...(name === 'limits_file' && { fileRules: [] }) }
  }
  for (const [n, step] of steps.entries()) {
    if (step.do !== 'send' || isJoin(step)) continue
    for (let i = 0; i < step.events.length; i++) {
      const fewer: Step = { ...step, events: step.events.toSpliced(i, 1) }
      if (fewer.events.length > 0) yield { ...scenario, steps: steps.with(n, fewer) }
    }
    for (let i = 0; i < step.events.length; i++) {
      for (const name of Object.keys(step.events[i]!)) {
        if (name === 'n') continue
        const { [name]: _, ...rest } = step.events[i]!
        yield { ...scenario, steps: steps.with(n, { ...step, events: step.events.with(i, rest) }) }
      }
    }
  }
}
