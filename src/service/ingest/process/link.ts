import type { BodyBytes } from '../../../net/http/events/send-body.js'
import type { Call } from './messages.js'

/** Why a process has ended that was not asked to. */
export type Death = 'looped' | 'memory' | 'crashed'

export interface LinkEvents {
  /** Throws if a process does not say that; it has to be killed. */
  message(message: unknown): void
  /** The process has ended, and all of its locks are free. `outOfMemory`: it reported that it ran out of memory. */
  ended(how: { readonly outOfMemory: boolean; readonly text: string }): void
}

/** A process that was started for an account. */
export interface Link {
  readonly pid: number | undefined
  /** Bytes of its resident memory, whatever it does; undefined: they are not known. */
  memory(): number | undefined
  /** `body`: of a call `take`; it is released when it was sent. */
  send(call: Call, body?: BodyBytes): void
  /** It ends when it has nothing more to do. */
  end(): void
  kill(): void
}

export type StartLink = (account: string, events: LinkEvents) => Link
