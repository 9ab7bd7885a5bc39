import { existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { basename, dirname, join } from 'node:path'
import type { StoreOptions } from '../engine/config/store-options.js'
import { shellWord } from '../lib/shell-word.js'
import { packageFolder, peerVersion } from '../lib/version.js'

/**
 * Returns which packages of the service are missing, and the command that installs them. A shipper does not need them, so
 * they are optional peers: npm installs them only on request, and Node.js finds them beside this package.
 */
export function missingPackages({ type }: StoreOptions): string | undefined {
  const isEmbedded = type !== 'postgresql'
  const needed = [
    'fastify',
    ...(isEmbedded ? [] : ['pg']),
    ...(isEmbedded && !isBuiltin('node:sqlite') ? ['@photostructure/sqlite'] : []),
  ]
  const missing = needed.filter(name => !isInstalled(name))
  if (missing.length === 0) return undefined
  const are = missing.length > 1 ? 'are' : 'is'
  return `needs ${missing.join(' and ')}, which ${are} not installed: run "${installCommand(missing)}"`
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}

/** `folder`: of this package. In a checkout, npm knows the packages. */
export function installCommand(names: readonly string[], folder = packageFolder): string {
  const at = folder.lastIndexOf('/node_modules/')
  if (at < 0) return `npm install --prefix ${shellWord(folder)}`
  const top = folder.slice(0, at)
  const packages = names.map(name => `${name}@${peerVersion(name)}`).join(' ')
  const isGlobal = basename(top) === 'lib' && !existsSync(join(top, 'package.json'))
  return `npm install ${isGlobal ? '--global ' : ''}--prefix ${shellWord(isGlobal ? dirname(top) : top)} ${packages}`
}
