/** The line was scanned, so DECODED and INVALID are set if they apply. line-splitter.ts defines the smaller flags. */
export const SCANNED = 16
/** The codec of the origin has decoded the line. Never set for codecs that produce plain messages. */
export const DECODED = 32
/** The line is not valid UTF-8. Its text has replacement characters; `raw` contains its bytes. */
export const INVALID = 64
/** The event was changed to another JSON object. */
export const MODIFIED = 128
