/** The module node:tls, loaded when it is first needed: a program without TLS does not wait for it. */
export const nodeTls = (): typeof import('node:tls') => process.getBuiltinModule('node:tls')
