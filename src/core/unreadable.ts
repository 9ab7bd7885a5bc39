import { errorCode, errorText, lacksDescriptor } from './errors.js'

export class NewerFormat extends Error {
  readonly code = 'SLUICE_NEWER_FORMAT'

  constructor(format: number, known: number) {
    super(`it has format ${format}, but this version of Sluice reads only format ${known}`)
  }
}

export function refuseNewer(format: unknown, known: number): void {
  if (typeof format === 'number' && format > known) throw new NewerFormat(format, known)
}

/**
 * A state file exists, but cannot be read now or cannot be read by this version. Do not treat the file as missing or
 * damaged, because its content may be needed and may become readable again.
 */
export class StateUnreadable extends Error {
  readonly code = 'SLUICE_STATE_UNREADABLE'
  readonly file: string

  constructor(file: string, cause: unknown) {
    super(`cannot read ${file}: ${errorText(cause)}; ${remedy(cause)}`, { cause })
    this.file = file
  }
}

function remedy(cause: unknown): string {
  if (cause instanceof NewerFormat) return 'run the version that wrote it, or move the file away to start without it'
  const code = errorCode(cause)
  if (code === 'EACCES' || code === 'EPERM') return 'give the user that runs Sluice permission to read it'
  if (lacksDescriptor(cause)) return 'raise the limit on open files'
  return 'check the disk and the file, or move it away to start without it'
}

/** Resolves with a file's content; undefined if the file does not exist. Throws StateUnreadable on any other error. */
export async function readState(path: string, read: (path: string) => Promise<string>): Promise<string | undefined> {
  try {
    return await read(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw new StateUnreadable(path, error)
  }
}
