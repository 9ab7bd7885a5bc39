export interface AuthenticateRequest {
  readonly authorization?: string | undefined
  /** x-delegate-account-id. */
  readonly delegateAccountId?: string | undefined
  /** Of the client, as far as proxies are trusted. */
  readonly address: string
  readonly requestId?: string | undefined
}
