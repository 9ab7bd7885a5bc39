import { preload } from '../lib/preload.js'

/** The service, and the commands that call or administer one. Each part loads only its own modules. */

export { missingPackages } from './packages.js'
export const admin = () => import('./serve/admin.js')
export const api = () => import('./commands/api.js')
export const fleet = () => import('./commands/fleet.js')
export const rates = () => import('./api/open-service.js')
export const serve = () => {
  preload(new URL('./serve/serve.js', import.meta.url))
  return import('./serve/serve.js')
}
