import { basename } from 'node:path'
import { fileSystems } from '../../../lib/files/remote/file-systems.js'
import { existsSync } from '../../../lib/files/remote/guarded-fs.js'
import { Saved } from '../saved.js'
import { compileExclude, compileGlobs, matchPath } from './glob.js'

/** The files selected by `include` and `exclude` that another source has started to read. */
export function filesOfAnother(
  { include, exclude }: { readonly include: readonly string[]; readonly exclude: readonly string[] },
  saved: unknown,
): string[] {
  const globs = compileGlobs(include)
  const excluded = compileExclude(exclude)
  const read = [...new Saved(saved).entries()].filter(({ gone, offset }) => !gone && offset > 0)
  const named = (path: string) => globs.some(segments => matchPath(path, segments) === 'whole')
  const isThere = (path: string) => fileSystems.silentAt(path) !== undefined || existsSync(path)
  return read.map(({ path }) => path).filter(path => named(path) && !excluded(path, basename(path)) && isThere(path))
}
