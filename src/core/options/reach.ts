import { constants, type Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { z } from 'zod'
import { fileSystems } from '../../lib/files/disk/file-systems.js'

/**
 * Resources outside the configuration that a component can access. A managed configuration may use only some of these
 * resources. Each option that accepts text declares which kind of resource the text names. An option without a
 * declaration is rejected (engine/config/published/permissions.ts).
 */

/**
 * `host`: facts about this machine, and its environment variables. `code`: code that runs in the process. `secret`: a
 * key or password, which names no resource.
 */
export type Reached = 'files' | 'urls' | 'listen' | 'credentials' | 'code' | 'host' | 'secret' | 'nothing'

const declared = z.registry<{ reaches: Reached }>()

/** For schemas that many options use: the kind of resource that these options name, by the title of the schema. */
const BY_TITLE: Readonly<Record<string, Reached>> = {
  duration: 'nothing',
  size: 'nothing',
  secret: 'secret',
  condition: 'nothing',
  template: 'nothing',
  'field path': 'nothing',
  'regular expression': 'nothing',
  address: 'listen',
}

export function reaches<S extends z.ZodType>(what: Reached, schema: S): S {
  declared.add(schema, { reaches: what })
  return schema
}

export const filePath = () => reaches('files', z.string().min(1))

export const credentialName = () =>
  reaches(
    'credentials',
    z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' }),
  )

/** For paths compared with paths in managed configurations. Absolute, because a relative path has no base folder. */
export const absolutePath = () =>
  reaches(
    'files',
    z.string().refine(path => path.startsWith('/'), 'must be an absolute path or pattern, as in /var/log/app/**'),
  )

/** A place that accepts text in the options of a component. */
export interface TextOption {
  /** `*` stands for any list item or mapping key. */
  readonly path: readonly string[]
  /** Undefined: not declared. */
  readonly reaches: Reached | undefined
  /** The title of the schema. */
  readonly title?: string | undefined
}

/** Types that cannot name a resource. */
const HARMLESS = new Set(['enum', 'literal', 'number', 'int', 'bigint', 'boolean', 'null', 'undefined', 'never'])

export function textOptions(schema: z.core.$ZodType, path: readonly string[] = []): TextOption[] {
  const title = z.globalRegistry.get(schema)?.title
  const found = declared.get(schema)?.reaches ?? BY_TITLE[title ?? '']
  if (found) return [{ path, reaches: found, title }]
  const def = schema._zod.def as unknown as {
    type: string
    shape?: Record<string, z.core.$ZodType>
    innerType?: z.core.$ZodType
    in?: z.core.$ZodType
    element?: z.core.$ZodType
    valueType?: z.core.$ZodType
    options?: readonly z.core.$ZodType[]
  }
  if (def.shape) return Object.entries(def.shape).flatMap(([name, inner]) => textOptions(inner, [...path, name]))
  const inner = def.innerType ?? def.in
  if (inner) return textOptions(inner, path)
  const each = def.element ?? def.valueType
  if (each) return textOptions(each, [...path, '*'])
  if (def.options) return def.options.flatMap(option => textOptions(option, path))
  return HARMLESS.has(def.type) ? [] : [{ path, reaches: undefined }]
}

export interface FileId {
  readonly dev: number
  readonly ino: number
}

export interface Reach {
  /** Returns the path with all links resolved. Throws if the component may not use the file. */
  realFile(path: string): string
  /** Throws if the opened file is not the file at `path`. `path` is a result of `realFile`. */
  confirm(path: string, opened: FileId): Promise<void>
  /** Returns why connections to an address are denied; undefined if they are allowed. */
  deniedAddress(address: string, port: number): string | undefined
}

export class OutOfReach extends Error {}

/**
 * Opens a file within the limits of `reach`. If `reach` is undefined, opens any file. If a link was created between the
 * check and the opening, throws before anything is read or written.
 */
export async function openWithin(
  reach: Reach | undefined,
  path: string,
  flags: number = constants.O_RDONLY,
): Promise<FileHandle> {
  // Opening a FIFO must not wait for a writer, because waiting would block a thread for all files of the process.
  const returning = flags | constants.O_NONBLOCK
  if (!reach) return open(path, returning)
  const real = reach.realFile(path)
  const file = await open(real, returning | constants.O_NOFOLLOW)
  try {
    await reach.confirm(real, await file.stat())
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/**
 * Reads a file within the limits. If `refusal` returns an error, throws it instead of reading. Throws SilentFileSystem
 * if the file system stops responding.
 */
export function readWithin(
  reach: Reach | undefined,
  path: string,
  refusal: (stats: Stats) => Error | undefined,
): Promise<{ bytes: Buffer; stats: Stats }> {
  return fileSystems.runInTime(path, async () => {
    const file = await openWithin(reach, path)
    try {
      const stats = await file.stat()
      const refused = refusal(stats)
      if (refused) throw refused
      return { bytes: await file.readFile(), stats }
    } finally {
      await file.close()
    }
  })
}
