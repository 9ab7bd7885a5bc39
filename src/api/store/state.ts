import type { Store } from './store.js'

/** What the service keeps in its data_dir: the store and, beside it, the secret that keys are hashed with. */
export interface ServiceState {
  readonly store: Store
  readonly secret: Buffer
  /** Copies both to a new folder, while the service runs. */
  backup(path: string): Promise<void>
  close(): Promise<void>
}

/** Opens it, or makes it where there is none; StoreError, SLUICE_STORE_IN_USE while another process has it. */
export async function openState(_dataDir: string, _random: (bytes: number) => Buffer): Promise<ServiceState> {
  throw new Error('not there yet')
}

/** Puts a backup in place of what is not there: `dataDir` must not hold a store, unless `replace` (kept aside then). */
export async function restoreState(_backup: string, _dataDir: string, _options?: { replace?: boolean }): Promise<void> {
  throw new Error('not there yet')
}
