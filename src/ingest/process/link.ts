import type { Call, FromProcess } from './messages.js'

/** Why a process has ended that was not asked to. */
export type Death = 'looped' | 'memory' | 'crashed'

export interface LinkEvents {
  message(message: FromProcess): void
  /** The process is gone, and has let go of everything. `outOfMemory`: it said so. */
  ended(how: { readonly outOfMemory: boolean; readonly text: string }): void
}

/** A process that was started for an account. */
export interface Link {
  readonly pid: number | undefined
  /** `body`: of a call `take`. */
  send(call: Call, body?: Buffer): void
  /** It ends when it has nothing more to do. */
  end(): void
  kill(): void
}

export type StartLink = (account: string, events: LinkEvents) => Link
