import { createHmac } from 'node:crypto'
import type { Reach } from '../../../core/options/reach.js'
import { plainBytes } from '../../../lib/formats/escapes.js'
import type { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addEscaped } from '../../../lib/formats/json-string.js'
import { type HashKeyOption, readHashKey } from './hash-key.js'

export type ActionOption =
  | 'mask'
  | { readonly mask: { readonly keep_last: number } }
  | { readonly replace: string }
  | { readonly hash: HashKeyOption }

/** Writes the replacement of the text [start, end) of `b`. `isJson`: whether the output is within a JSON string. */
export type Action = (to: GrowingBytes, b: Buffer, start: number, end: number, isJson: boolean) => void

const MASK = Buffer.from('***')

/** If the action is a hash, reads the key, which `reach` must allow. */
export async function makeAction(option: ActionOption, reach: Reach | undefined): Promise<Action> {
  if (option === 'mask') return masking(0)
  if ('mask' in option) return masking(option.mask.keep_last)
  if ('hash' in option) return hashing(await readHashKey(option.hash, reach))
  return replacing(option.replace)
}

function hashing(key: string): Action {
  return (to, b, start, end) => {
    // Removes escapes, so that a secret has the same hash in all notations.
    to.addText(
      createHmac('sha256', key)
        .update(plainBytes(b, start, end))
        .digest('hex'),
    )
  }
}

function replacing(text: string): Action {
  const plain = Buffer.from(text)
  return (to, _b, _start, _end, isJson) => {
    if (isJson) addEscaped(to, plain, 0, plain.length)
    else to.add(plain, 0, plain.length)
  }
}

function masking(keepLast: number): Action {
  return (to, b, start, end, isJson) => {
    to.add(MASK, 0, MASK.length)
    const from = keepLast > 0 ? keptFrom(b, start, end, keepLast) : end
    if (isJson) addEscaped(to, b, from, end)
    else to.add(b, from, end)
  }
}

/** Returns where the last `count` characters start, or `end` if these characters are more than half of the text. */
function keptFrom(b: Buffer, start: number, end: number, count: number): number {
  let from = end
  for (let kept = 0; kept < count; kept++) {
    do from--
    while (from > start && (b[from]! & 0xc0) === 0x80)
    if (from - start < end - from) return end
  }
  return from
}
