import { crc32 } from 'node:zlib'
import { StoreError } from './store.js'

/**
 * The text of a value in LevelDB: a checksum of key and value in 8 hexadecimal digits, a space, and the value as JSON.
 * LevelDB does not verify the checksums of its tables when reading, and Node.js cannot enable that. Values saved
 * without a checksum by earlier versions are plain JSON, which never begins like that.
 */

const CHECKED = /^[0-9a-f]{8} /
const PREFIX = 9

export function checkedText(key: string, json: string): string {
  return `${sumOf(key, json)} ${json}`
}

/** The JSON of a stored text. Throws StoreError SLUICE_STORE_DAMAGED if it is not what was saved under the key. */
export function jsonOf(key: string, text: string): string {
  if (!CHECKED.test(text)) {
    if (isJson(text)) return text
  } else if (text.slice(0, PREFIX - 1) === sumOf(key, text.slice(PREFIX))) return text.slice(PREFIX)
  const message = `the store is damaged: the record ${key} is not what was saved. Check the disk, and put a backup in place with "sluice admin restore --replace"`
  throw new StoreError('SLUICE_STORE_DAMAGED', message)
}

function sumOf(key: string, json: string): string {
  return crc32(json, crc32(key)).toString(16).padStart(8, '0')
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
