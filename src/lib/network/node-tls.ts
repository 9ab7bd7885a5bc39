/** Returns the module node:tls. Loaded on demand: a program without TLS does not wait for it. */
export const nodeTls = (): typeof import('node:tls') => process.getBuiltinModule('node:tls')
