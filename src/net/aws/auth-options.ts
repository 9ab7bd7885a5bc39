import { z } from 'zod'
import { refuse, refuseAt, secret } from '../../core/options/options.js'
import { filePath, reaches } from '../../core/options/reach.js'

const NAME = /^[\x21-\x7e]+$/

export const awsAuth = z
  .strictObject({
    access_key_id: reaches('nothing', z.string().regex(NAME, { error: 'must be printable ASCII without spaces' }))
      .optional()
      .describe('The access key ID.'),
    secret_access_key: secret()
      .optional()
      .describe('The secret access key itself. Prefer an environment variable, as in ${AWS_SECRET}.'),
    secret_access_key_file: filePath()
      .optional()
      .describe('File that holds the secret access key, read again when it changes.'),
    session_token: secret().optional().describe('The session token of temporary credentials.'),
    credentials_file: filePath()
      .optional()
      .describe('File in the format of `~/.aws/credentials`. It is read again when it changes.'),
    profile: reaches('nothing', z.string().min(1))
      .optional()
      .describe('Profile in the credentials file. Default: AWS_PROFILE, otherwise `default`.'),
  })
  .superRefine((auth, context) => {
    const { access_key_id, secret_access_key, secret_access_key_file, session_token, credentials_file, profile } = auth
    const hasSecret = secret_access_key !== undefined || secret_access_key_file !== undefined
    const isFile = credentials_file !== undefined || profile !== undefined
    if (isFile && (access_key_id !== undefined || hasSecret || session_token !== undefined))
      refuse(context, 'use either access_key_id with its secret, or credentials_file and profile')
    if ((access_key_id !== undefined) !== hasSecret)
      refuse(context, 'access_key_id needs secret_access_key or secret_access_key_file, and they need access_key_id')
    if (secret_access_key !== undefined && secret_access_key_file !== undefined)
      refuseAt(context, ['secret_access_key_file'], 'cannot be combined with secret_access_key; use one of them')
    if (session_token !== undefined && access_key_id === undefined)
      refuseAt(context, ['session_token'], 'needs access_key_id')
  })

export type AwsAuth = z.output<typeof awsAuth>
