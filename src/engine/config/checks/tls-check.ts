import { shownPath } from '../../../lib/files/shown-path.js'
import { inspectTls, TLS_OPTIONS, type TlsPaths } from '../../../net/tls-check.js'
import type { Draft } from '../component-config.js'
import { SECTIONS } from '../schema.js'
import type { ServiceOptions } from '../service-options.js'
import { type ConfigNode, locate, type MapNode, type Path } from '../yaml/node.js'
import type { Problems } from '../yaml/problems.js'

interface Found {
  readonly problems: Problems
  readonly warnings: Problems
}

/** Checks files that a configuration names. */
export type FileCheck = (
  root: MapNode,
  drafts: readonly Draft[],
  service: ServiceOptions | undefined,
  found: Found,
) => void

/**
 * Checks the files of certificates and keys that a configuration names. A broken file is a problem. A missing or
 * unreadable file is a warning, since it may exist where the configuration will be used. `wall`: the time at which they
 * must be valid.
 */
export function tlsCheckAt(wall: number): FileCheck {
  return (root, drafts, service, found) => checkTlsFiles(root, drafts, service, wall, found)
}

function checkTlsFiles(
  root: MapNode,
  drafts: readonly Draft[],
  service: ServiceOptions | undefined,
  wall: number,
  { problems, warnings }: Found,
): void {
  const check = (node: ConfigNode, path: Path, tls: TlsPaths) => {
    for (const { option, file, message, kind } of inspectTls(tls, wall).problems) {
      const at = locate(node, ['tls', option]).node ?? node
      const to = kind === 'broken' ? problems : warnings
      to.add(at, [...path, 'tls', option], withoutEnvironment(node, tls, `${shownPath(file)} ${message}`))
    }
  }
  for (const { id, kind, entry, config } of drafts) {
    const { tls } = (config?.options ?? {}) as { readonly tls?: TlsPaths }
    if (tls && TLS_OPTIONS.some(option => tls[option] !== undefined)) check(entry.value, [SECTIONS[kind], id], tls)
  }
  const section = root.entries.get('service')
  if (service?.tls && section) check(section.value, ['service'], service.tls)
}

/** Replaces values from the environment by the place of their option. */
function withoutEnvironment(node: ConfigNode, tls: TlsPaths, text: string): string {
  return TLS_OPTIONS.reduce((shown, option) => {
    const { node: value } = locate(node, ['tls', option])
    const inFile = value?.kind === 'scalar' ? value.environment?.text : undefined
    return inFile === undefined || !tls[option] ? shown : shown.replaceAll(tls[option], inFile)
  }, text)
}
