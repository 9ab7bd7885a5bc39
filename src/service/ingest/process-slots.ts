import { Refusal } from '../../net/http/server/refusal.js'

/**
 * Decides which accounts have a process for their pipelines, and which account loses its process if others need one.
 */

/**
 * The work of a pipeline. `idle`: all events are delivered. `buffered`: clients do not wait, and the remaining events
 * are in disk buffers. `unattended`: events are not acknowledged, but the clients that sent them have disconnected.
 * `attended`: a client waits for its answer.
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
  /** For each account with a process, the pipelines that are starting, running or ending. */
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

  /** Returns whether this was the account's last pipeline. If so, the process of the account can end. */
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
    const message = `the service runs pipelines of at most ${this.#most} accounts at a time, and other accounts still have events to deliver; send this again later`
    return new Refusal(503, NO_ROOM, message, { 'retry-after': '10' })
  }

  /**
   * Returns the pipelines of the account that needs its process least. Skips accounts with pipelines that may not end
   * (`mayEnd`). Returns an empty list if no account was found.
   */
  toEnd<C extends Candidate>(running: Iterable<C>, mayEnd: (one: C) => boolean): readonly C[] {
    const accounts = new Map<string, C[]>()
    for (const one of running) accounts.set(one.accountId, [...(accounts.get(one.accountId) ?? []), one])
    const need = (all: readonly C[]) => Math.max(...all.map(({ demand }) => ORDER.indexOf(demand)))
    const [least] = [...accounts]
      // Excludes accounts with a pipeline that is starting or ending.
      .filter(([account, all]) => all.length === this.pipelinesOf(account).size && all.every(mayEnd))
      .map(([, all]) => all)
      .sort((one, other) => need(one) - need(other))
    return least ?? []
  }
}
