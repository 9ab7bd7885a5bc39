/** Replays recorded events through throttles. */

export type { KeyResult, SimulationResult } from './result.js'
export { simulate } from './simulate.js'
export { keyTable } from './summary.js'
export { throttleLines } from './throttle.js'
export { number, percent } from './words.js'
