import type { Seen } from '../../../core/fact.js'
import { shellWord } from '../../../lib/shell-word.js'
import { dataDirOf } from '../../config/load.js'
import { stateOfFiles } from '../../config/yaml/config-files.js'
import { pathOf } from '../state/inventory.js'

/** A command line that sends dead letters again. It works from any folder. */
export function resendCommand(id: string, about: Seen['about']): string {
  const words = ['sluice', 'resend', '--config', about?.config ?? 'FILE', '--destination', id]
  // In another folder or environment, the configuration may name another data_dir.
  if (about && dataDirElsewhere(about.config) !== about.data_dir) words.push(pathOf(about.data_dir, 'dead_letters', id))
  return words.map(shellWord).join(' ')
}

/** The data_dir is cached until the configuration's files change, since the page asks for it every few seconds. */
let known = { config: '', state: '', folder: undefined as string | undefined }

function dataDirElsewhere(config: string | undefined): string | undefined {
  if (config === undefined) return undefined
  const state = stateOfFiles(config)
  if (config !== known.config || state !== known.state) known = { config, state, folder: folderElsewhere(config) }
  return known.folder
}

function folderElsewhere(config: string): string | undefined {
  try {
    const folder = dataDirOf(config, {})
    return folder.startsWith(`${process.cwd()}/`) ? undefined : folder
  } catch {
    return undefined
  }
}
