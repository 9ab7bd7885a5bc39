import { join } from 'node:path'
import { ConfigError, errorText } from '../../../core/errors.js'
import type { Secret } from '../../../core/options/options.js'
import { type Reach, readWithin } from '../../../core/options/reach.js'
import { noKeyFile, trimKey } from '../../../net/key.js'

const LONGEST_KEY = 64 * 1024

/** Exactly one of these is set. */
export interface HashKeyOption {
  readonly key?: Secret | undefined
  readonly key_file?: string | undefined
  readonly credential?: string | undefined
}

/** Reads the key, and removes a line end after the key. Error messages do not contain the key. */
export async function readHashKey({ key, key_file, credential }: HashKeyOption, reach?: Reach): Promise<string> {
  if (key) return key.reveal()
  const folder = process.env.CREDENTIALS_DIRECTORY
  if (key_file === undefined && !folder) {
    throw unusable(
      `credential ${credential}`,
      `cannot find the credential "${credential}": CREDENTIALS_DIRECTORY is not set; run under systemd with LoadCredential=${credential}:PATH`,
    )
  }
  const path = key_file ?? join(folder!, credential!)
  const { bytes } = await readWithin(reach, path, noKeyFile(LONGEST_KEY)).catch(error => {
    throw unusable(path, `cannot read the key of hashes: ${errorText(error)}`)
  })
  const text = trimKey(bytes.toString())
  if (text === '') throw unusable(path, 'the key of hashes is empty; write a key, as with: openssl rand -hex 32')
  return text
}

function unusable(file: string, message: string): ConfigError {
  return new ConfigError([{ file, line: 1, column: 1, path: '', message }])
}
