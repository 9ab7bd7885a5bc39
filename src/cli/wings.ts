/**
 * Parts of the program that are loaded when a command needs them. Without their folders, the daemon still runs. No other
 * file outside of a wing loads it.
 */
export const page = () => import('../page/wing.js')
export const service = () => import('../service/wing.js')
export const simulate = () => import('../simulate/wing.js')
