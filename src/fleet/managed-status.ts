/** How a managed daemon and its service get along. */
export interface ManagedStatus {
  /** Undefined: nothing runs. */
  readonly revision: number | undefined
  /** The newest revision that the service has published, as far as is known. */
  readonly published: number | undefined
  /** The newest revision, where it cannot run here, and why. */
  readonly refused: number | undefined
  readonly refusal: string | undefined
  /** When the service last answered, in seconds since 1970. */
  readonly last_contact: number | undefined
  /** Undefined: it answers. */
  readonly unreachable_seconds: number | undefined
  readonly unreachable: string | undefined
  /** Why the last report was not accepted. */
  readonly report_problem: string | undefined
}
