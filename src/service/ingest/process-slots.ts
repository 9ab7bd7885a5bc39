import { Refusal } from '../../net/http/server/refusal.js'

/** Which accounts have a process for their pipelines, and which of them gives it up for another account. */

/**
 * What a pipeline has to do. `idle`: nothing is left to deliver. `buffered`: nobody waits, and all events are in disk
 * buffers. `unattended`: events were not acknowledged, and the clients that sent them have gone. `attended`: a client
 * waits for its answer.
 */
export type Demand = 'idle' | 'buffered' | 'unattended' | 'attended'

interface Candidate {
  readonly accountId: string
  readonly demand: Demand
}

export const NO_ROOM = 'too_many_pipelines'
const ORDER: readonly Demand[] = ['idle', 'buffered', 'unattended', 'attended']

export class ProcessSlots {
  readonly #most: number
  /** The pipelines that start, run or end, of each account with a process. */
  readonly #accounts = new Map<string, Set<string>>()

  constructor(most: number) {
    this.#most = most
  }

  hasRoomFor(account: string): boolean {
    return this.#accounts.has(account) || this.#accounts.size < this.#most
  }

  take(account: string, pipeline: string): void {
    this.#accounts.set(account, this.pipelinesOf(account).add(pipeline))
  }

  /** Returns whether the account has no pipeline left, so that its process can end. */
  leave(account: string, pipeline: string): boolean {
    const pipelines = this.pipelinesOf(account)
    pipelines.delete(pipeline)
    return pipelines.size === 0 && this.#accounts.delete(account)
  }

  pipelinesOf(account: string): Set<string> {
    return this.#accounts.get(account) ?? new Set()
  }

  get pipelines(): string[] {
    return [...this.#accounts.values()].flatMap(pipelines => [...pipelines])
  }

  refusal(): Refusal {
    const message = `the service runs pipelines of ${this.#most} other accounts, the most that are possible, and their events wait to be delivered; send this again later`
    return new Refusal(503, NO_ROOM, message, { 'retry-after': '10' })
  }

  /** The pipelines of the account that needs its process least, among those whose pipelines may all end; or none. */
  toEnd<C extends Candidate>(running: Iterable<C>, mayEnd: (one: C) => boolean): readonly C[] {
    const accounts = new Map<string, C[]>()
    for (const one of running) accounts.set(one.accountId, [...(accounts.get(one.accountId) ?? []), one])
    const need = (all: readonly C[]) => Math.max(...all.map(({ demand }) => ORDER.indexOf(demand)))
    const [least] = [...accounts]
      // Not while another pipeline of the account starts.
      .filter(([account, all]) => all.length === this.pipelinesOf(account).size && all.every(mayEnd))
      .map(([, all]) => all)
      .sort((one, other) => need(one) - need(other))
    return least ?? []
  }
}
