import t, { type Test } from 'tap'

const why = process.env.CI ? false : 'takes long: runs with CI=true'

/** As `t.test`, for a bound, many kills or many rounds: `npm test` leaves it out, and `.ci/run` runs it. */
export function longTest(name: string, run: (t: Test) => unknown): void {
  void t.test(name, { skip: why }, run)
}
