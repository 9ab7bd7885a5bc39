import { convert } from './convert.js'
import { copy } from './copy.js'
import { hash } from './hash.js'
import { keep } from './keep.js'
import { lower, trim, upper } from './letters.js'
import { remove } from './remove.js'
import { move, rename } from './rename.js'
import { replace } from './replace.js'
import { set, setDefault } from './set.js'
import { join, split } from './split.js'
import type { StepKind } from './step.js'
import { truncate } from './truncate.js'

/** All kinds of steps, in the order of the reference. */
export const KINDS: readonly StepKind[] = [
  set,
  setDefault,
  rename,
  move,
  copy,
  remove,
  keep,
  convert,
  lower,
  upper,
  trim,
  truncate,
  split,
  join,
  replace,
  hash,
]
