/** Which pipeline has to make room for another one. */

/**
 * `idle`: nothing is left to deliver. `buffered`: nobody waits, and all events are in disk buffers. `unattended`: events
 * were not acknowledged, and the clients that sent them have gone. `attended`: a client waits for its answer.
 */
export type Attendance = 'idle' | 'buffered' | 'unattended' | 'attended'

export interface Candidate {
  readonly accountId: string
  readonly attendance: Attendance
}

const ORDER: readonly Attendance[] = ['idle', 'buffered', 'unattended', 'attended']

/**
 * The one of `running` (least recently used first) that has to end for a pipeline of `account`; undefined: none. An idle
 * one always may. Of another account, one with events to deliver ends only when that account has more pipelines, and one
 * that a client waits for only when the account has at least two more: then both have their share.
 */
export function makesRoom<C extends Candidate>(
  account: string,
  running: Iterable<C>,
  countOf: (account: string) => number,
): C | undefined {
  const all = [...running]
  const own = countOf(account)
  for (const attendance of ORDER) {
    const heaviest = all
      .filter(one => one.attendance === attendance && mayEnd(one, account, countOf(one.accountId) - own))
      .reduce<C | undefined>(
        (most, one) => (most && countOf(most.accountId) >= countOf(one.accountId) ? most : one),
        undefined,
      )
    if (heaviest) return heaviest
  }
  return undefined
}

function mayEnd({ accountId, attendance }: Candidate, account: string, more: number): boolean {
  if (attendance === 'idle') return true
  if (attendance === 'attended') return more > 1
  return accountId === account || more > 0
}
