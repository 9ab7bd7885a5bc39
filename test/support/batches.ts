export * from '../../src/testing/batches.js'
