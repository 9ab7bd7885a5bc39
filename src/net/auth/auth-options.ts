import { constants } from 'node:fs'
import { z } from 'zod'
import type { OptionWarning } from '../../core/component.js'
import { errorCode, errorText } from '../../core/errors.js'
import { refuse, refuseAt, secret } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'
import { SilentFileSystem } from '../../lib/files/remote/file-systems.js'
import { accessSync, statSync } from '../../lib/files/remote/guarded-fs.js'
import { shownPath } from '../../lib/files/shown-path.js'

/** The characters that RFC 9110 allows in a header name and in an authentication scheme. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Where the key comes from, and where requests carry it. */
export const auth = z
  .strictObject({
    type: z.enum(['token', 'none']).prefault('token').describe('token: a key in a header. none: no authentication.'),
    key: secret().optional().describe('The key itself; better from the environment: ${SLUICE_ACCESS_KEY}.'),
    key_file: filePath()
      .optional()
      .describe('File that holds the key, read again when it changes. A trailing newline is ignored.'),
    credential: reaches(
      'credentials',
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]*$/, { error: 'must be the name of a systemd credential' }),
    )
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the key.'),
    scheme: reaches('nothing', z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]*$/, { error: 'must be one word' }))
      .prefault('Token')
      .describe('The word before the key, such as Token or Bearer. Empty: only the key is sent.'),
    header: reaches('nothing', z.string().regex(HEADER_NAME, { error: 'must be the name of a header' }))
      .prefault('Authorization')
      .describe('The header that carries the key.'),
  })
  .superRefine((auth, context) => {
    const given = (['key', 'key_file', 'credential'] as const).filter(name => auth[name] !== undefined)
    if (auth.type === 'none') {
      for (const name of given) refuseAt(context, [name], 'has no use with type: none')
    } else if (given.length !== 1) {
      refuse(context, `needs exactly one of key, key_file and credential; ${given.join(' and ') || 'none'} given`)
    }
    const problem = auth.key && keyProblem(trimKey(auth.key.reveal()))
    if (problem) refuseAt(context, ['key'], problem)
  })

export type AuthOptions = z.output<typeof auth>

/** Warnings of `sluice validate`: `key_file`, an option in `path`, does not exist or cannot be read by this user. */
export function keyFileWarnings(
  { key_file: file }: Pick<AuthOptions, 'key_file'>,
  path: readonly string[] = ['auth'],
): OptionWarning[] {
  if (file === undefined) return []
  const option = [...path, 'key_file']
  const shown = shownPath(file)
  try {
    if (statSync(file).isFile()) accessSync(file, constants.R_OK)
    else return [{ path: option, message: `${shown} is not a file` }]
    return []
  } catch (error) {
    const missing = errorCode(error) === 'ENOENT'
    if (error instanceof SilentFileSystem)
      return [{ path: option, message: `${shown} cannot be read now: ${error.message}` }]
    const message = missing
      ? `${shown} does not exist here; create it where this configuration is used, with the key in it`
      : `${shown} cannot be read by this user: ${errorText(error)}`
    return [{ path: option, message }]
  }
}

/** Removes the line end that editors and `echo` append. A regular expression would take hours for many line ends. */
export function trimKey(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '\n' || text[end - 1] === '\r')) end--
  return text.slice(0, end)
}

/** Why a key is unusable, in words that do not reveal it; undefined if it can be sent. */
export function keyProblem(key: string): string | undefined {
  if (/^•+$/.test(key)) return 'the key is hidden here: write ${secret:NAME}, and save it as a secret of the account'
  if (key === '') return 'the key is empty'
  if (/[\r\n]/.test(key)) return 'the key has more than one line'
  if (!/^[\x21-\x7e]+$/.test(key))
    return 'the key has a character that cannot be in a header (a space, a control character, or not ASCII)'
  return undefined
}
