import { readFileSync } from 'node:fs'
import {
  createRequire,
  type LoadFnOutput,
  type LoadHookContext,
  type ResolveFnOutput,
  type ResolveHookContext,
} from 'node:module'
import { fileURLToPath } from 'node:url'

/**
 * Hooks by which Node.js resolves and loads users' modules. If Node.js has `registerHooks`, the hooks run in the thread
 * that loads the module. Node.js 20 has only `register`. The hooks then run in another thread, where `next` returns
 * promises.
 */

/** The parameter in the URL of a user's module. Its value distinguishes versions of the file. */
export const VERSION_PARAMETER = 'sluice'

/** The URL scheme to find a package from a folder. The JSON of `[name, URL of a file in the folder]` follows. */
export const PACKAGE = 'sluice-package:'

type Maybe<T> = T | Promise<T>
const after = <A, B>(value: Maybe<A>, use: (value: A) => B): Maybe<B> =>
  value instanceof Promise ? value.then(use) : use(value)

/** Resolves Sluice's own package to the running program. A relative import gets the version of its importer. */
export function resolve(
  specifier: string,
  context: ResolveHookContext,
  next: (specifier: string, context: ResolveHookContext) => Maybe<ResolveFnOutput>,
): Maybe<ResolveFnOutput> {
  if (specifier.startsWith(PACKAGE)) {
    const [name, parentURL] = JSON.parse(decodeURIComponent(specifier.slice(PACKAGE.length))) as [string, string]
    return next(name, { ...context, parentURL })
  }
  if (/^@sluice-logs\/sluice(\/|$)/.test(specifier)) return next(specifier, { ...context, parentURL: import.meta.url })
  const version = /^\.\.?\//.test(specifier) ? versionOf(context.parentURL) : undefined
  const found = next(specifier, context)
  if (version === undefined || context.conditions.includes('require')) return found
  return after(found, result => ({ ...result, url: versioned(result.url, version) }))
}

/** Strips types if Node.js does not. Loads sources that look like ES modules as ES modules. */
export function load(
  url: string,
  context: LoadHookContext,
  next: (url: string, context: LoadHookContext) => Maybe<LoadFnOutput>,
): Maybe<LoadFnOutput> {
  const [, made = '', language] = /\.([cm]?)([jt])s$/.exec(url.replace(/[?#].*/s, '')) ?? []
  if (versionOf(url) === undefined || language === undefined || made === 'c') return next(url, context)
  const path = fileURLToPath(url)
  const isTyped = language === 't'
  const isNative = Boolean((process.features as { typescript?: unknown }).typescript)
  const source = readFileSync(path, 'utf8')
  if (!isTyped && made !== 'm' && !context.format?.startsWith('module') && !looksLikeModule(source))
    return next(url, context)
  if (isTyped && isNative) return next(url, { ...context, format: 'module-typescript' as 'module' })
  return { format: 'module', source: isTyped ? withoutTypes(source, path) : source, shortCircuit: true }
}

export function versioned(url: string, version: string): string {
  const own = new URL(url)
  own.searchParams.set(VERSION_PARAMETER, version)
  return own.href
}

function versionOf(url: string | undefined): string | undefined {
  if (!url?.startsWith('file:')) return undefined
  return new URL(url).searchParams.get(VERSION_PARAMETER) ?? undefined
}

const looksLikeModule = (source: string): boolean => /^\s*(import\b\s*[^\s(.]|export\b\s*[{*\w])/m.test(source)

/** Replaces types by spaces, which keeps lines and columns. */
function withoutTypes(source: string, path: string): string {
  // Loaded on demand, because this package is large and only TypeScript on Node.js 20 needs it.
  const { transformSync } = createRequire(import.meta.url)(
    '@swc/wasm-typescript',
  ) as typeof import('@swc/wasm-typescript')
  try {
    return transformSync(source, { mode: 'strip-only', filename: path }).code
  } catch (error) {
    const {
      message,
      startLine,
      startColumn = 0,
    } = error as { message?: string; startLine?: number; startColumn?: number }
    const place = startLine === undefined ? path : `${path}:${startLine}:${startColumn + 1}`
    throw new SyntaxError(`${message ?? error} (${place})`)
  }
}
