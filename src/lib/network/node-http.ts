/**
 * The exports of node:http that are used. An import of node:http would read all its exports. In Node.js 22 and later,
 * one of them loads a WebSocket client, which takes longer than the start of Node.js itself.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
