/** Flags of an event beyond those of its line (line-splitter.ts). They are set when the line is first looked at. */
export const SCANNED = 16
/** The codec of the origin has decoded the line. Never set where every line is text. */
export const DECODED = 32
/** The line is not valid UTF-8: its text has replacement characters, its bytes are kept under `raw`. */
export const INVALID = 64
/** The event has a LogEvent whose fields were changed. */
export const MODIFIED = 128
