import { basename, isAbsolute, join, relative } from 'node:path'
import { packageFolder } from '../../lib/version.js'

/** Who reads the screen: the folder where they stand, and how they can call this program there. */
export interface Reader {
  readonly folder: string
  /** How a command begins: `npx sluice`. */
  readonly program: string
}

/** npm runs scripts in the folder of the package, and says in INIT_CWD where it was called. */
export function readerOf(env: NodeJS.ProcessEnv, main: string): Reader {
  const folder = (env.npm_command && env.INIT_CWD) || process.cwd()
  return { folder, program: programFor(folder, main) }
}

function programFor(folder: string, main: string): string {
  if (basename(main) === 'sluice') return main.includes(join('node_modules', '.bin')) ? 'npx sluice' : 'sluice'
  const inside = relative(packageFolder, folder)
  if (!inside.startsWith('..') && !isAbsolute(inside)) return 'npx sluice'
  return `node ${shown(join(packageFolder, 'dist/src/cli/main.js'), folder)}`
}

/** A path as the reader can type it. */
export function shown(path: string, folder: string): string {
  const near = relative(folder, path)
  const short = near.length < path.length ? near : path
  return /^[\w@%+=:,./-]+$/.test(short) ? short : `'${short.replaceAll("'", "'\\''")}'`
}
