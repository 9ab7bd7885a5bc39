import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

/**
 * On Node.js 20, loads a module and its imports before an `import` of the module. This saves a quarter of a start's CPU
 * time, because `require` reads files synchronously, while `import` uses promises and threads. In later versions, both
 * take the same time. Module hooks, such as those of an agent, do not see these modules.
 */
export function preload(url: URL): void {
  const { versions, features } = process
  const can = (features as { readonly require_module?: boolean }).require_module
  if (versions.node.startsWith('20.') && can) require(fileURLToPath(url))
}
