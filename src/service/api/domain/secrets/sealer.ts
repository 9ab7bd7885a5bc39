import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'

/** Text encrypted with AES-256-GCM. */
export interface Sealed {
  /** Identifies the encryption key without revealing anything about it. */
  readonly key_id: string
  /** 12 random bytes that are never used twice, in base64. `data` is in base64, too. */
  readonly nonce: string
  /** The encrypted text followed by its authentication tag of 16 bytes. */
  readonly data: string
}

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts stored texts with a key derived from the secret beside the store. */
export class Sealer {
  readonly #key: KeyObject
  readonly #keyId: string
  readonly #random: (bytes: number) => Buffer

  constructor(secret: Buffer, random: (bytes: number) => Buffer) {
    const key = Buffer.from(hkdfSync('sha256', secret, '', 'sluice: secrets of accounts, version 1', KEY_BYTES))
    this.#key = createSecretKey(key)
    this.#keyId = createHmac('sha256', key).update('key id').digest('hex').slice(0, 16)
    this.#random = random
  }

  /** Encrypts a text and binds it to `place`. The text cannot be decrypted at another place. */
  seal(text: string, place: string): Sealed {
    const nonce = this.#random(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES })
    cipher.setAAD(Buffer.from(place))
    const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return { key_id: this.#keyId, nonce: nonce.toString('base64'), data: data.toString('base64') }
  }

  /** Decrypts a text; undefined if it is damaged, or was encrypted with another key or for another place. */
  open({ key_id, nonce, data }: Sealed, place: string): string | undefined {
    if (key_id !== this.#keyId) return undefined
    try {
      const bytes = Buffer.from(data, 'base64')
      const options = { authTagLength: TAG_BYTES }
      const decipher = createDecipheriv(CIPHER, this.#key, Buffer.from(nonce, 'base64'), options)
      decipher.setAAD(Buffer.from(place))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
    } catch {
      return undefined
    }
  }
}
