import { isMapping } from '../../../../core/codec.js'
import { forbidden } from '../errors.js'

/** Beta features. Only after a manager enables one, the account may publish and use pipelines with its processor. */
export const FEATURES: Readonly<Record<string, { readonly processor: string }>> = {
  throttle: { processor: 'throttle' },
}

/** Returns the features that a configuration requires. */
export function featuresIn({ processors }: Readonly<Record<string, unknown>>): string[] {
  const all = isMapping(processors) ? Object.values(processors) : []
  const used = new Set(all.map(one => isMapping(one) && one.type))
  return Object.keys(FEATURES).filter(name => used.has(FEATURES[name]!.processor))
}

export type Enabled = Readonly<Record<string, boolean>>

/** Throws 403 if one of the features is not enabled. `then`: what else the caller has to do. */
export function requireFeatures(enabled: Enabled, features: readonly string[], then = ''): void {
  const name = features.find(feature => enabled[feature] !== true)
  if (name === undefined) return
  throw forbidden(
    'feature_not_enabled',
    `${name} is in beta and not enabled for this account. With the key of a manager of the account, run: sluice api enable ${name} (PUT /v3/account/feature/${name})${then}`,
  )
}
