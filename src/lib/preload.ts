import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

/**
 * Loads a module with all that it imports, for an `import` that follows. Node.js 20 reads each file with promises and
 * threads for `import`, and at once for `require`, which takes a quarter of the time of the processor away from a
 * start. Later versions take the same for both. Hooks for modules, such as those of an agent, do not see these modules.
 */
export function preload(url: URL): void {
  const { versions, features } = process
  const can = (features as { readonly require_module?: boolean }).require_module
  if (versions.node.startsWith('20.') && can) require(fileURLToPath(url))
}
