export * from '../../src/testing/stage.js'
