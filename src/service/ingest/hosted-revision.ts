import { errorText } from '../../core/errors.js'
import type { ConfigSecrets } from '../api/domain/secrets/secrets.js'
import type { PublishedData } from './process/messages.js'

export interface HostedRevision extends Omit<PublishedData, 'secrets'> {
  /** The account's secrets to which the configuration refers. */
  readonly secrets?: ConfigSecrets
}

interface Version {
  readonly revision: number
  readonly published_at: string
  readonly secrets?: { readonly version: string }
}

/**
 * Identifies a revision together with the values of its secrets. Includes the time when it was published, because the
 * number of a revision that PostgreSQL has lost is used again.
 */
export function versionName({ revision, published_at, secrets }: Version): string {
  return `${revision} ${published_at} ${secrets?.version ?? ''}`
}

/** Adds the values of the secrets. If a secret is missing, adds the reason as a text instead. */
export function dataOf(published: HostedRevision): PublishedData {
  const { secrets, ...rest } = published
  if (!secrets) return rest
  const { version, names } = secrets
  return { ...rest, secrets: { version, names, values: valuesOf(secrets) } }
}

function valuesOf(secrets: ConfigSecrets): ReadonlyMap<string, string> | string {
  try {
    return new Map(Object.entries(secrets.values()))
  } catch (error) {
    return errorText(error)
  }
}
