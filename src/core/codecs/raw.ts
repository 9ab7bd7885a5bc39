import { defineCodec } from '../codec.js'
import { textCodec } from './text.js'

const { encoder: _, ...decoder } = textCodec

export const raw = defineCodec({
  ...decoder,
  name: 'raw',
  summary: 'Another name of `text`: each line becomes `.message` as it is.',
  notes:
    'Disk buffers and the dead-letter queue name it `text`. If a line is not UTF-8, `.raw` has its bytes in base64. ' +
    'As an encoding, `raw` writes the line as it was read, or the JSON of an event that was changed.',
})
