export * from '../../src/engine/testing/stage.js'
