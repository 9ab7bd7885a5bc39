import type { ThrottleConfig } from '../../components/processors/throttle/options.js'
import { throttle } from '../../components/processors/throttle.js'
import type { ComponentConfig } from '../../engine/config/load.js'

/** Whether the processor is a throttle that shares its limits with other daemons. */
export function sharesLimits({ definition, options }: ComponentConfig<'processor'>): boolean {
  return definition === throttle && (options as ThrottleConfig).scope === 'cluster'
}

/** Makes a throttle with shared limits count alone, because trying out a configuration must not use Redis. */
export function withOwnBuckets(processor: ComponentConfig<'processor'>): ComponentConfig<'processor'> {
  if (!sharesLimits(processor)) return processor
  return { ...processor, options: { ...(processor.options as ThrottleConfig), scope: 'local' } }
}
