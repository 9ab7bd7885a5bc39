import { errorText } from '../../core/errors.js'
import type { PublishedData } from './process/messages.js'

/** What is published of a pipeline. */
export interface HostedRevision extends Omit<PublishedData, 'secrets'> {
  /** The secrets of its account that it refers to. */
  readonly secrets?: {
    /** Another one for other values. */
    readonly version: string
    readonly names: readonly string[]
    /** By name. Throws when one is missing. */
    values(): Readonly<Record<string, string>>
  }
}

interface Version {
  readonly revision: number
  readonly secrets?: { readonly version: string }
}

/** The same for the same revision with the same values of its secrets. */
export function versionName({ revision, secrets }: Version): string {
  return `${revision} ${secrets?.version ?? ''}`
}

/** With the values of its secrets, or why there are none. */
export function dataOf(published: HostedRevision): PublishedData {
  const { secrets, ...rest } = published
  if (!secrets) return rest
  const { version, names } = secrets
  return { ...rest, secrets: { version, names, values: valuesOf(secrets) } }
}

function valuesOf(secrets: NonNullable<HostedRevision['secrets']>): ReadonlyMap<string, string> | string {
  try {
    return new Map(Object.entries(secrets.values()))
  } catch (error) {
    return errorText(error)
  }
}
