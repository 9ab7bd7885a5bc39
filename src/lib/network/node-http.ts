/**
 * The parts of node:http in use. Importing that module reads all its exports, and in Node.js 22 and later one of them
 * loads a WebSocket client, which takes longer than the start of Node.js itself.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http')
