/**
 * Parts of the program that are loaded when a command needs them. Without their folders, the daemon still runs. No other
 * file outside of a wing loads it.
 */
export const loadPage = () => import('../page/wing.js')
export const loadService = () => import('../service/wing.js')
export const loadSimulation = () => import('../simulate/wing.js')
