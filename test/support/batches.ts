export * from '../../src/engine/testing/batches.js'
