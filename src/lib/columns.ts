/** Returns a copy of the column with another length: truncated, or padded with zeros. */
export function resized<T extends Float64Array | Int32Array | Uint32Array | Uint8Array>(column: T, length: number): T {
  const other = new (column.constructor as new (length: number) => T)(length)
  other.set(column.length > length ? column.subarray(0, length) : column)
  return other
}
