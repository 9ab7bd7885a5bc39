import type { ApiError } from '../errors.js'
import { forbidden } from '../errors.js'

/** Beta features. After a manager enables one, the account may publish pipelines with the feature's processor. */
export const FEATURES: Readonly<Record<string, { readonly processor: string }>> = {
  throttle: { processor: 'throttle' },
}

/** Returns the features that these processor types require and that are not enabled. */
export function missingFeatures(enabled: Readonly<Record<string, boolean>>, types: Iterable<string>): string[] {
  const used = new Set(types)
  return Object.entries(FEATURES).flatMap(([name, { processor }]) =>
    used.has(processor) && enabled[name] !== true ? [name] : [],
  )
}

export function notEnabled(names: readonly string[]): ApiError {
  const [name] = names
  return forbidden(
    'feature_not_enabled',
    `${names.join(', ')} is in beta and not enabled for this account. With the key of a manager of the account, run: sluice api enable ${name} (PUT /v3/account/feature/${name}); then publish again`,
  )
}
