import { parentPort, workerData } from 'node:worker_threads'
import { loadSqlite, SqliteConnection, type Writer } from './sqlite-connection.js'
import type { WriterAnswer, WriterCall } from './sqlite-thread.js'

/** The code that runs in the thread of WriterThread (sqlite-thread.ts). */

const Sqlite = await loadSqlite()
let connection: SqliteConnection | undefined

parentPort!.on('message', ([name, ...args]: WriterCall) => {
  parentPort!.postMessage(answerOf(name, args))
})

function answerOf(name: keyof Writer, args: readonly unknown[]): WriterAnswer {
  try {
    connection ??= new SqliteConnection(new Sqlite(workerData))
    return { result: (connection[name] as (...args: readonly unknown[]) => unknown)(...args) }
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number }
    return { message, ...(errcode !== undefined && { errcode }) }
  }
}
