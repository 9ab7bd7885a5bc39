import { rm } from 'node:fs/promises'
import type { Test } from 'tap'

type Content = NonNullable<Parameters<Test['testdir']>[0]>

/**
 * A new folder of this test, with files as tap's `testdir` takes them. It is removed after the other teardowns of the test. By itself
 * tap removes it before them when it was made first, and fails while the processes that they end still write there.
 */
export function testFolder(t: Test, content: Content = {}): string {
  // What was killed may be in the middle of its last call.
  t.teardown(() => rm(t.testdirName, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 }))
  return t.testdir(content)
}
