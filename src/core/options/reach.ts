import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { z } from 'zod'

/**
 * What a component can reach outside of its configuration. A configuration that comes from elsewhere is bounded in it:
 * each option that takes text says what its text names, and one that does not say so is refused (config/managed/permitted.ts).
 */

export type Reached = 'files' | 'urls' | 'listen' | 'credentials' | 'nothing'

const declared = z.registry<{ reaches: Reached }>()

/** Kinds of text that many components share say it by their title. */
const BY_TITLE: Readonly<Record<string, Reached>> = {
  duration: 'nothing',
  size: 'nothing',
  secret: 'nothing',
  condition: 'nothing',
  'field path': 'nothing',
  'regular expression': 'nothing',
  address: 'listen',
}

/** Declares what the text of an option names. */
export function reaches<S extends z.ZodType>(what: Reached, schema: S): S {
  declared.add(schema, { reaches: what })
  return schema
}

/** The path of a file or a folder. */
export const filePath = () => reaches('files', z.string().min(1))

/** One place in the options of a component where text can stand. */
export interface TextOption {
  /** `*` stands for any item of a list or any key of a mapping. */
  readonly path: readonly string[]
  /** Undefined: the option does not say. */
  readonly reaches: Reached | undefined
}

/** Types that cannot name anything. */
const HARMLESS = new Set(['enum', 'literal', 'number', 'int', 'bigint', 'boolean', 'null', 'undefined', 'never'])

/** All places where text can stand. */
export function textOptions(schema: z.core.$ZodType, path: readonly string[] = []): TextOption[] {
  const found = declared.get(schema)?.reaches ?? BY_TITLE[z.globalRegistry.get(schema)?.title ?? '']
  if (found) return [{ path, reaches: found }]
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

/** The bounds of a component while it runs. */
export interface Reach {
  /** The path with all links resolved. Throws when the file must not be used. */
  realFile(path: string): string
  /** Throws when the file that was opened is not the one at `path`, which `realFile` gave. */
  confirm(path: string, opened: FileId): Promise<void>
  /** Why no connection may be made to an address; undefined: it may be made. */
  deniedAddress(address: string, port: number): string | undefined
}

/** Thrown for a file beyond the bounds. */
export class OutOfReach extends Error {}

/**
 * Opens a file within the bounds, and any file without bounds. A link that is put in the way between the check and the
 * opening is noticed: nothing is read or written then.
 */
export async function openWithin(
  reach: Reach | undefined,
  path: string,
  flags: number = constants.O_RDONLY,
  mode?: number,
): Promise<FileHandle> {
  // Opening a FIFO must not wait for a writer: it would block a thread that all files of the process share.
  const returning = flags | constants.O_NONBLOCK
  if (!reach) return open(path, returning, mode)
  const real = reach.realFile(path)
  const file = await open(real, returning | constants.O_NOFOLLOW, mode)
  try {
    await reach.confirm(real, await file.stat())
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}
