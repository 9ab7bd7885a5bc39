/** The exports of the kernel. */

export { scanFields, setFrame, writeFields } from './field-lines'
export { base, scanLines, setCopy, setNames } from './json-lines'
export { learnKey, setKnown } from './known-keys'
export { findLines } from './line-ends'
export { setLogFields, writeRecords } from './log-records'
export { setFields } from './members'
export { hashStrings, narrowStrings } from './strings'
