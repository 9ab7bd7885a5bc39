export interface ManagedStatus {
  /** Undefined while nothing runs. */
  readonly revision: number | undefined
  /** The newest published revision that this daemon knows. */
  readonly published: number | undefined
  /** If the newest revision cannot run here, its number and the reason. */
  readonly refused: number | undefined
  readonly refusal: string | undefined
  /** When the service last responded, in seconds since 1970. */
  readonly last_contact: number | undefined
  /** How long the service has not responded, and why; undefined while it responds. */
  readonly unreachable_seconds: number | undefined
  readonly unreachable: string | undefined
  /** Why the last report was not accepted. */
  readonly report_problem: string | undefined
}
