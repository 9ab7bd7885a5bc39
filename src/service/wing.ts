import { preload } from '../lib/preload.js'

/** The service, and the commands that call or administer one. Each part loads only its own modules. */

export { missingPackages } from './packages.js'
export const loadAdmin = () => import('./serve/admin.js')
export const loadApi = () => import('./commands/api.js')
export const loadFleet = () => import('./commands/fleet.js')
export const loadRates = () => import('./api/open-service.js')
export const loadServe = () => {
  preload(new URL('./serve/serve.js', import.meta.url))
  return import('./serve/serve.js')
}
