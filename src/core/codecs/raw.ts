import { defineCodec } from '../codec.js'
import { text } from './text.js'

export const raw = defineCodec({
  ...text,
  name: 'raw',
  summary: 'Another name of `text`: each line becomes `.message` as it is.',
  notes:
    'What disk buffers and dead letters name is `text`. Of a line that is no UTF-8, `.raw` has the bytes in base64. ' +
    'As an encoding, `raw` writes the line as it was read, or the JSON of an event that was changed.',
})
