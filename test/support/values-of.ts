/** The values that things have under a name, in their order. */
export const valuesOf = <T, K extends keyof T>(things: Iterable<T>, name: K): T[K][] =>
  Array.from(things, thing => thing[name])
