/** Bytes in parts, which follow each other. */

export const sizeOfAll = (parts: readonly Buffer[]): number => parts.reduce((sum, { length }) => sum + length, 0)
