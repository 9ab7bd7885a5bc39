/** Lines that a source derives from its raw input. */
export interface MadeLines {
  /** One line per event, in the form in which the source processes them. */
  readonly lines: Buffer
  /** What the input was, in words: `an entry of the journal`. */
  readonly of: string
}
