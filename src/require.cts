// Loaded by require() in Node.js before 20.19 and 22.12, where require() cannot load ES modules.
throw Object.assign(
  new Error(
    `Sluice consists of ES modules, which Node.js ${process.versions.node} cannot load with require(). ` +
      'Load it with "await import(...)", or use Node.js 20.19, 22.12 or newer.',
  ),
  { code: 'ERR_REQUIRE_ESM' },
)
