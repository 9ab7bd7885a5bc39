import { Refusal } from '../../net/http/server/refusal.js'

/** Which pipelines have to make room for another one. */

/**
 * `idle`: nothing is left to deliver. `buffered`: nobody waits, and all events are in disk buffers. `unattended`: events
 * were not acknowledged, and the clients that sent them have gone. `attended`: a client waits for its answer.
 */
export type Attendance = 'idle' | 'buffered' | 'unattended' | 'attended'

export interface Candidate {
  readonly id: string
  readonly accountId: string
  readonly attendance: Attendance
  /** By the monotonic clock. */
  readonly startedAt: number
}

export const NO_ROOM = 'too_many_pipelines'
const ORDER: readonly Attendance[] = ['idle', 'buffered', 'unattended', 'attended']

export interface RoomBounds {
  /** Pipelines that run at the same time. */
  readonly maxPipelines: number
  /** Accounts whose pipelines run at the same time, each in a process. */
  readonly maxProcesses: number
}

/** The room for pipelines, and for the processes of accounts, shared out among those who want it. */
export class Room {
  readonly #bounds: RoomBounds
  /** The accounts of those that run or were given room to start, by pipeline. */
  readonly #accounts = new Map<string, string>()

  constructor(bounds: RoomBounds) {
    this.#bounds = bounds
  }

  take(id: string, account: string): void {
    this.#accounts.set(id, account)
  }

  leave(id: string): void {
    this.#accounts.delete(id)
  }

  /** Of one account, or of all. */
  idsOf(account?: string): string[] {
    const all = [...this.#accounts]
    return all.filter(([, one]) => account === undefined || one === account).map(([id]) => id)
  }

  countOf(account: string): number {
    let count = 0
    for (const one of this.#accounts.values()) if (one === account) count++
    return count
  }

  hasRoomFor(account: string): boolean {
    return !this.#isFull && !this.#lacksProcess(account)
  }

  /** How many pipelines each account may run, this one included. */
  #shareWith(account: string): number {
    const accounts = new Set([...this.#accounts.values(), account])
    return Math.max(1, Math.floor(this.#bounds.maxPipelines / accounts.size))
  }

  /** There is none for a pipeline of the account. */
  refusal(account: string): Refusal {
    const { maxPipelines, maxProcesses } = this.#bounds
    const why = this.#isFull
      ? `this account runs ${this.countOf(account)} pipelines with events that wait to be delivered, and its share of the ${maxPipelines} pipelines of this service is ${this.#shareWith(account)} at present`
      : `the service runs pipelines of ${maxProcesses} other accounts, the most that are possible, and their events wait to be delivered`
    return new Refusal(503, NO_ROOM, `${why}; send this again later`, { 'retry-after': '10' })
  }

  /** What clients hear whose pipeline ends for one of the account. */
  endedFor(account: string): Refusal {
    const message = `the pipeline was ended before the events were delivered, to make room for other accounts: the share of this account is ${this.#shareWith(account)} pipelines at present; send this again later`
    return new Refusal(503, 'account_share_exceeded', message, { 'retry-after': '10' })
  }

  /** Those of `running` (least recently used first) that have to end for a pipeline of `account`; empty: none can. */
  toEnd<C extends Candidate>(account: string, running: Iterable<C>): readonly C[] {
    const all = [...running]
    if (!this.#isFull) return this.#wholeAccount(all, one => one.attendance !== 'attended')
    const one = makesRoom(account, all, of => this.countOf(of))
    return one ? [one] : []
  }

  /** The same for one that waits with events in its disk buffers: those that are idle, or have had their turn. */
  toPause<C extends Candidate>(running: Iterable<C>, startedBefore: number): readonly C[] {
    const all = [...running]
    const mayPause = ({ attendance, startedAt }: C) =>
      attendance === 'idle' || (attendance === 'buffered' && startedAt <= startedBefore)
    if (!this.#isFull) return this.#wholeAccount(all, mayPause)
    const one = all.find(mayPause)
    return one ? [one] : []
  }

  get #isFull(): boolean {
    return this.#accounts.size >= this.#bounds.maxPipelines
  }

  /** How many accounts of these pipelines cannot have a process, since others have all of them. */
  lackingProcess(pipelines: readonly { readonly account_id: string }[]): number {
    const accounts = new Set(pipelines.map(({ account_id }) => account_id))
    return [...accounts].filter(account => this.#lacksProcess(account)).length
  }

  #lacksProcess(account: string): boolean {
    const accounts = new Set(this.#accounts.values())
    return !accounts.has(account) && accounts.size >= this.#bounds.maxProcesses
  }

  /** All pipelines of the account that is the least in need of its process. Everybody has one, so nobody has more than a share. */
  #wholeAccount<C extends Candidate>(running: readonly C[], mayEnd: (one: C) => boolean): readonly C[] {
    const accounts = new Map<string, C[]>()
    for (const one of running) accounts.set(one.accountId, [...(accounts.get(one.accountId) ?? []), one])
    const possible = [...accounts].filter(([id, all]) => all.length === this.countOf(id) && all.every(mayEnd))
    const need = (all: readonly C[]) => Math.max(...all.map(({ attendance }) => ORDER.indexOf(attendance)))
    return possible.reduce<readonly C[]>(
      (least, [, all]) => (least.length === 0 || need(all) < need(least) ? all : least),
      [],
    )
  }
}

/**
 * The one of `running` (least recently used first) that has to end for a pipeline of `account`; undefined: none. An idle
 * one always may. Of another account, one with events to deliver ends only when that account has more pipelines, and one
 * that a client waits for only when the account has at least two more: then both have their share.
 */
function makesRoom<C extends Candidate>(
  account: string,
  all: readonly C[],
  countOf: (account: string) => number,
): C | undefined {
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
