import t, { type Test } from 'tap'

const { CI, SLUICE_SHORT } = process.env
const why = CI ? false : 'takes long: runs with CI=true'

/**
 * As `t.test`, for a bound, many kills or many rounds: `npm test` leaves it out, and `.ci/run` runs it with one release of
 * Node.js; with the others (`SLUICE_SHORT`) it is not there.
 */
export function longTest(name: string, run: (t: Test) => unknown): void {
  if (!SLUICE_SHORT) void t.test(name, { skip: why }, run)
}

/** How often a test tries what it draws: `inCi` times where long tests run. */
export function rounds(inCi: number, otherwise: number): number {
  return CI && !SLUICE_SHORT ? inCi : otherwise
}
