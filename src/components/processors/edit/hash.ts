import { createHash, createHmac } from 'node:crypto'
import { z } from 'zod'
import { filePath } from '../../../core/options/reach.js'
import { readHashKey } from '../redact/hash-key.js'
import { changeValue, defineStep, fieldList, type Operation } from './step.js'

const ALGORITHMS = ['sha256', 'sha384', 'sha512', 'sha1', 'md5'] as const

const one = z.strictObject({
  fields: fieldList().describe('The fields.'),
  algorithm: z.enum(ALGORITHMS).default('sha256').describe('The algorithm.'),
  key_file: filePath()
    .optional()
    .describe(
      'File with a key, read at the start. The hash is then an HMAC: without the key, nobody can find a value by trying all possible values.',
    ),
})

export const hash = defineStep({
  name: 'hash',
  schema: one.describe(
    'Replaces values with their hash, in hexadecimal digits. Values other than strings are hashed as JSON; missing fields and null stay unchanged.',
  ),
  operations: ({ fields, algorithm, key_file: file }) => {
    let key: string | undefined
    const hashed = (text: string) =>
      (key ? createHmac(algorithm, key) : createHash(algorithm)).update(text).digest('hex')
    return fields.map((path): Operation => {
      const operation = changeValue(path, ({ reader, editor, field }) => {
        editor.set(field, hashed(reader.text()))
        return undefined
      })
      return {
        ...operation,
        async compile(tools) {
          if (file !== undefined) key ??= await readHashKey({ key_file: file }, tools.reach)
          return operation.compile(tools)
        },
      }
    })
  },
})
